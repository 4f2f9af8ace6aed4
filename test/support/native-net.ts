import { connect } from '../../src/client/index.ts'
import type { Client } from '../../src/client/types.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import type { Net, NetAddress, NetConnection } from '../../src/io/net.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { type TestNativeDoor, testNativeDoor } from './native-door.ts'

const ADDRESS = { host: 'broker', port: 9092 }

/** The native door behind a network inside the process, on virtual time, for clients of the library. */
export interface NativeNetwork extends TestNativeDoor {
  /** Connects as time goes on: the clock must be moved meanwhile. */
  client(name: string): NetworkClient
}

/** A client that can be killed as its process would be: its sockets close, and it sends nothing any more. */
export class NetworkClient {
  readonly opened: Promise<Client>
  readonly #open = new Set<NetConnection>()
  readonly #gone = new AbortController()

  constructor(network: { net: VirtualNet; clock: TestNativeDoor['clock'] }, name: string, seed: number) {
    const { net, clock } = network
    const mine: Net = {
      listen: (...request) => net.listen(...request),
      connect: async (address: NetAddress, options) => {
        if (this.#gone.signal.aborted) throw new MoonMQError('CONNECT_FAILED', { address: address.host, reason: 'its process is gone' })
        const connection = await net.connect(address, options)
        this.#open.add(connection)
        return connection
      },
    }
    this.opened = connect({ address: ADDRESS, net: mine, clock, random: new SeededRandom(seed), name, signal: this.#gone.signal })
  }

  kill(): void {
    for (const connection of this.#open) connection.destroy()
    this.#gone.abort()
  }
}

export async function nativeNetwork(): Promise<NativeNetwork> {
  const at = await testNativeDoor()
  const net = new VirtualNet({ clock: at.clock })
  let id = 0
  await net.listen(ADDRESS, (connection) =>
    at.door.accept(connection, Buffer.alloc(0), { id: ++id, listener: 'main', advertised: null, loggedIn: () => {} }),
  )
  return { ...at, client: (name) => new NetworkClient({ net, clock: at.clock }, name, ++id) }
}

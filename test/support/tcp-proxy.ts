import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { type Deferred, deferred } from '../../src/core/deferred.ts'

/** What becomes of the next bytes: a request is kept back, or its answer is lost with the connection. */
type Fault = 'none' | 'hold requests' | 'lose answer'

/** A network between clients and a broker that does what a test says. Connections that are open already obey as well. */
export class TcpProxy implements AsyncDisposable {
  readonly #server: Server
  readonly #target: { readonly host: string; readonly port: number }
  readonly #sockets = new Set<Socket>()
  /** Requests that are kept back, in order, with where they go. */
  readonly #held: { readonly to: Socket; readonly bytes: Buffer }[] = []
  #fault: Fault = 'none'
  #happened: Deferred<void> = deferred()

  private constructor(server: Server, address: string) {
    const [host = '', port = ''] = address.split(':')
    this.#server = server
    this.#target = { host, port: Number(port) }
    server.on('connection', (client) => this.#join(client))
  }

  static async open(address: string): Promise<TcpProxy> {
    const server = createServer()
    const proxy = new TcpProxy(server, address)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return proxy
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** From now on nothing that clients send arrives. Resolves when something was kept back. */
  holdRequests(): Promise<void> {
    return this.#set('hold requests')
  }

  /** The broker gets what is sent; its next answer is lost, and with it the connection. Resolves when that has happened. */
  loseAnswer(): Promise<void> {
    return this.#set('lose answer')
  }

  /** What was kept back arrives now, and everything after it. */
  release(): void {
    this.#fault = 'none'
    for (const { to, bytes } of this.#held.splice(0)) to.write(bytes)
  }

  #set(fault: Fault): Promise<void> {
    this.#fault = fault
    this.#happened = deferred()
    return this.#happened.promise
  }

  #join(client: Socket): void {
    const broker = connect(this.#target.port, this.#target.host)
    for (const socket of [client, broker]) {
      this.#sockets.add(socket)
      socket.setNoDelay(true)
      // The other end learns of it by the close.
      socket.on('error', () => {})
      socket.on('close', () => this.#sockets.delete(socket))
    }
    client.on('close', () => broker.destroy())
    broker.on('close', () => client.destroy())
    client.on('data', (bytes: Buffer) => {
      if (this.#fault !== 'hold requests') {
        broker.write(bytes)
        return
      }
      this.#held.push({ to: broker, bytes })
      this.#happened.resolve()
    })
    broker.on('data', (bytes: Buffer) => {
      if (this.#fault !== 'lose answer') {
        client.write(bytes)
        return
      }
      this.#fault = 'none'
      client.destroy()
      this.#happened.resolve()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of [...this.#sockets]) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

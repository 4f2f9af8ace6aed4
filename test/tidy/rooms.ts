/**
 * What only some rooms may touch (DESIGN D6): a clock, randomness, disk, network, environment, console and the thread pool of one's
 * own would make a run that no seed can repeat.
 */
import type { FileFacts } from './facts.ts'
import { type Facts, type Finding, folderOf } from './rules.ts'

interface Ban {
  readonly what: string
  readonly instead: string
  /** Uses, as `UseFact.text`; a text that ends in `*` is a prefix. */
  readonly uses?: readonly string[]
  /** Modules of Node that may not be imported, with names when only some of them are meant. */
  readonly modules?: readonly string[]
  /** Names taken from a module, or used through a namespace of it. */
  readonly names?: { readonly modules: readonly string[]; readonly banned: (name: string) => boolean }
  readonly dynamicImport?: true
  /** Files and folders (ending in `/`) below `src/` where it is allowed. */
  readonly rooms: readonly string[]
}

const ASYNC_CRYPTO = /^(pbkdf2|scrypt|hkdf|generateKey|generateKeyPair|generatePrime|checkPrime|randomFill)$/
const ASYNC_ZLIB =
  /^(gzip|gunzip|deflate|deflateRaw|inflate|inflateRaw|unzip|brotliCompress|brotliDecompress|zstdCompress|zstdDecompress|create\w+)$/

export const BANS: readonly Ban[] = [
  {
    what: 'the wall clock',
    instead: 'Clock of core/clock.ts',
    uses: ['Date.now', 'new Date()', 'performance.now', 'process.hrtime', 'process.hrtime.bigint'],
    modules: ['node:perf_hooks'],
    rooms: ['core/clock.ts'],
  },
  { what: 'the age of the process', instead: 'Clock of core/clock.ts', uses: ['process.uptime'], rooms: ['cli/'] },
  {
    what: 'a timer',
    instead: 'Clock of core/clock.ts',
    uses: [
      'setTimeout()',
      'setInterval()',
      'setImmediate()',
      'clearTimeout()',
      'clearInterval()',
      'clearImmediate()',
      'process.nextTick',
      'AbortSignal.timeout',
      'globalThis.setTimeout',
      'globalThis.setInterval',
    ],
    modules: ['node:timers', 'node:timers/promises'],
    rooms: ['core/clock.ts'],
  },
  {
    what: 'randomness',
    instead: 'Random of core/random.ts',
    uses: ['Math.random', 'crypto.randomUUID', 'crypto.getRandomValues'],
    names: { modules: ['node:crypto'], banned: (name) => name.startsWith('random') || name === 'getRandomValues' || name === 'webcrypto' },
    rooms: ['core/random.ts'],
  },
  {
    what: 'asynchronous crypto',
    instead: 'Offload of core/offload.ts',
    names: { modules: ['node:crypto'], banned: (name) => ASYNC_CRYPTO.test(name) },
    rooms: ['io/'],
  },
  {
    what: 'asynchronous zlib',
    instead: 'Offload of core/offload.ts',
    names: { modules: ['node:zlib'], banned: (name) => ASYNC_ZLIB.test(name) },
    rooms: ['io/'],
  },
  { what: 'worker threads', instead: 'Offload of core/offload.ts', modules: ['node:worker_threads', 'node:cluster'], rooms: ['io/'] },
  {
    what: 'the disk',
    instead: 'Disk of io/disk.ts',
    modules: ['node:fs', 'node:fs/promises'],
    rooms: ['io/', 'server/', 'cli/'],
  },
  {
    what: 'the network',
    instead: 'Net of io/net.ts',
    modules: ['node:net', 'node:tls', 'node:dns', 'node:dns/promises', 'node:dgram', 'node:http', 'node:https', 'node:http2'],
    rooms: ['io/', 'http/'],
  },
  { what: 'a child process', instead: 'nothing: a broker starts no program', modules: ['node:child_process'], rooms: ['cli/'] },
  { what: 'the environment', instead: 'settings, passed in', uses: ['process.env*'], rooms: ['server/', 'cli/'] },
  { what: 'the console', instead: 'Logger of core/logger.ts', uses: ['console.*'], rooms: ['cli/'] },
  { what: 'import()', instead: 'an injected loader', dynamicImport: true, rooms: ['io/', 'server/', 'cli/', 'testing/', 'index.ts'] },
]

/** Uses and imports outside of the room that owns them. Only `src/` has rooms. */
export function roomFindings(facts: Facts, bans: readonly Ban[] = BANS): Finding[] {
  const findings: Finding[] = []
  for (const file of facts.values()) {
    if (folderOf(file.path) === null) continue
    for (const ban of bans) {
      if (ban.rooms.some((room) => inRoom(file.path, room))) continue
      for (const [line, text] of breaches(file, ban))
        findings.push({ path: file.path, line, text: `${text} is ${ban.what}: use ${ban.instead}` })
    }
  }
  return findings
}

function inRoom(path: string, room: string): boolean {
  return room.endsWith('/') ? path.startsWith(`src/${room}`) : path === `src/${room}`
}

function* breaches(file: FileFacts, ban: Ban): Generator<readonly [number, string]> {
  for (const use of file.uses) if (ban.uses?.some((text) => matches(use.text, text))) yield [use.line, use.text]
  for (const imported of file.imports) {
    const specifier = imported.specifier.startsWith('node:') ? imported.specifier : `node:${imported.specifier}`
    if (ban.modules?.includes(specifier)) yield [imported.line, imported.specifier]
    if (ban.dynamicImport && imported.kind === 'dynamic') yield [imported.line, `import('${imported.specifier}')`]
    if (!ban.names?.modules.includes(specifier)) continue
    for (const name of imported.names) {
      if (name === '*' || name === 'default') yield [imported.line, `the whole of ${imported.specifier}`]
      else if (ban.names.banned(name)) yield [imported.line, `${name} of ${imported.specifier}`]
    }
  }
}

function matches(text: string, pattern: string): boolean {
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern
}

/**
 * Which tests run when. A test belongs to a folder under `test/` and to a kind by its suffix: `x.test.ts` is quick,
 * `x.ci.test.ts`, `x.full.test.ts`, `x.soak.test.ts` and `x.external.test.ts` are not.
 */
export type Kind = 'quick' | 'ci' | 'full' | 'soak' | 'external'

export interface Lane {
  readonly name: string
  /** Folders under `test/`; null = every one. */
  readonly folders: readonly string[] | null
  readonly kinds: readonly Kind[]
  /** What the tests read as their lane, to size their work (`test/support/lane.ts`). */
  readonly size: 'quick' | 'ci' | 'full' | 'soak'
  /** A test file that takes longer has failed and is ended. */
  readonly fileTimeoutMs: number
  /** The whole lane, when it runs as a part of `ci`. */
  readonly limitMs: number
}

const SECOND = 1000
const MINUTE = 60 * SECOND

/** Folders whose quick tests are in `npm test`: they need Node alone. The rules of the repository are in `npm run check`. */
export const QUICK_FOLDERS = ['unit', 'contract', 'integration', 'sim', 'crash', 'faults', 'fuzz'] as const

function lane(name: string, folders: Lane['folders'], kinds: readonly Kind[], size: Lane['size'], limits: [number, number]): Lane {
  return { name, folders, kinds, size, fileTimeoutMs: limits[0], limitMs: limits[1] }
}

export const LANES: readonly Lane[] = [
  lane('quick', QUICK_FOLDERS, ['quick'], 'quick', [120 * SECOND, 4 * MINUTE]),
  lane('tidy', ['tidy'], ['quick'], 'quick', [60 * SECOND, 2 * MINUTE]),
  lane('conformance', ['conformance'], ['quick', 'ci'], 'ci', [20 * MINUTE, 24 * MINUTE]),
  lane('crash', ['crash'], ['quick', 'ci'], 'ci', [4 * MINUTE, 5 * MINUTE]),
  lane('faults', ['faults', 'sim', 'contract'], ['quick', 'ci'], 'ci', [3 * MINUTE, 4 * MINUTE]),
  lane('fuzz', ['fuzz'], ['quick', 'ci'], 'ci', [170 * SECOND, 3 * MINUTE]),
  lane('full', null, ['quick', 'ci', 'full'], 'full', [30 * MINUTE, 240 * MINUTE]),
  lane('soak', null, ['soak'], 'soak', [12 * 60 * MINUTE, 12 * 60 * MINUTE]),
  lane('external', null, ['external'], 'quick', [5 * MINUTE, 10 * MINUTE]),
]

/** `ci` is these lanes, each in a process of its own under its own limit. */
export const CI_LANES = ['conformance', 'crash', 'faults', 'fuzz'] as const

const SUFFIX = /\.(?:(ci|full|soak|external)\.)?test\.js$/

/** Folder and kind of a compiled test, by its path below `dist/test`; null when the file is no test. */
export function classify(path: string): { readonly folder: string; readonly kind: Kind } | null {
  const suffix = SUFFIX.exec(path)
  const folder = path.split('/')[0]
  if (!suffix || folder === undefined || folder === path) return null
  return { folder, kind: (suffix[1] as Kind | undefined) ?? 'quick' }
}

export function belongsTo(lane: Lane, path: string): boolean {
  const test = classify(path)
  if (!test || !lane.kinds.includes(test.kind)) return false
  return lane.folders === null || lane.folders.includes(test.folder)
}

/** The repository's rules as pure functions from facts to findings. Each names file, line and what to do. */
import type { FileFacts, ImportFact } from './facts.ts'
import { CORE_NODE_EXCEPTIONS, CORE_NODE_MODULES, type Layer } from './layers.ts'

export interface Finding {
  readonly path: string
  readonly line: number
  readonly text: string
}

export type Facts = ReadonlyMap<string, FileFacts>

export function show(findings: readonly Finding[]): string {
  return findings.map((finding) => `${finding.path}:${finding.line} ${finding.text}`).join('\n')
}

/** The folder of `src/` that a file is in; `src/index.ts` is the folder `index`. Null outside of `src/`. */
export function folderOf(path: string): string | null {
  const parts = path.split('/')
  if (parts[0] !== 'src' || parts[1] === undefined) return null
  return parts.length === 2 ? parts[1].replace(/\.ts$/, '') : parts[1]
}

/** Imports against the table of layers, entry modules included. */
export function layerFindings(facts: Facts, layers: readonly Layer[]): Finding[] {
  const byFolder = new Map(layers.map((layer) => [layer.folder, layer]))
  const findings: Finding[] = []
  for (const file of facts.values()) {
    const folder = folderOf(file.path)
    if (folder === null) continue
    const own = byFolder.get(folder)
    if (!own) {
      findings.push({ path: file.path, line: 1, text: `folder ${folder} has no row in the table of layers` })
      continue
    }
    for (const imported of file.imports) {
      const text = importProblem(own, imported, byFolder)
      if (text !== null) findings.push({ path: file.path, line: imported.line, text })
    }
  }
  return findings
}

function importProblem(own: Layer, imported: ImportFact, byFolder: ReadonlyMap<string, Layer>): string | null {
  if (imported.target === null) return null
  const folder = folderOf(imported.target)
  if (folder === null) return `src/ must not import ${imported.target}`
  if (folder === own.folder) return null
  if (folder !== 'core' && !own.may.includes(folder)) return `${own.folder} must not import ${folder} (${imported.target})`
  const entries = byFolder.get(folder)?.entries ?? null
  const module = imported.target.replace(/^src\/[^/]+\//, '').replace(/\.ts$/, '')
  if (entries !== null && !entries.includes(module))
    return `${imported.target} is private to ${folder}; its entry modules: ${entries.join(', ')}`
  return null
}

/** What `core` takes of Node and of packages. */
export function coreFindings(facts: Facts): Finding[] {
  const findings: Finding[] = []
  for (const file of facts.values()) {
    if (folderOf(file.path) !== 'core') continue
    const allowed: readonly string[] = [...CORE_NODE_MODULES, ...(CORE_NODE_EXCEPTIONS.get(file.path) ?? [])]
    for (const imported of file.imports) {
      if (imported.target !== null || allowed.includes(imported.specifier)) continue
      findings.push({ path: file.path, line: imported.line, text: `core must not import ${imported.specifier}` })
    }
  }
  return findings
}

/** Import cycles between files, imports of types included. One finding a cycle. */
export function cycleFindings(facts: Facts): Finding[] {
  const findings: Finding[] = []
  const done = new Set<string>()
  const path: string[] = []
  const visit = (name: string): void => {
    const at = path.indexOf(name)
    if (at >= 0) {
      findings.push({ path: name, line: 1, text: `import cycle: ${[...path.slice(at), name].join(' -> ')}` })
      return
    }
    if (done.has(name)) return
    path.push(name)
    for (const imported of facts.get(name)?.imports ?? []) if (imported.target !== null) visit(imported.target)
    path.pop()
    done.add(name)
  }
  for (const name of facts.keys()) visit(name)
  return findings
}

export const FILE_LINES_WARN = 500
export const FILE_LINES_MAX = 800
export const FUNCTION_LINES_MAX = 70

/** Files above the limit. Generated files and tables of data are excepted by name. */
export function fileSizeFindings(facts: Facts, limit: number, exceptions: ReadonlyMap<string, string>): Finding[] {
  const findings: Finding[] = []
  for (const file of facts.values()) {
    if (file.lines <= limit || exceptions.has(file.path) || file.path.endsWith('.generated.ts')) continue
    findings.push({ path: file.path, line: limit, text: `${file.lines} lines; at most ${limit}: split it by what its parts know` })
  }
  return findings
}

/** Functions above the limit outside of tests; an exception is `path name` with its reason. */
export function functionSizeFindings(facts: Facts, exceptions: ReadonlyMap<string, string>): Finding[] {
  const findings: Finding[] = []
  for (const file of facts.values()) {
    if (file.path.startsWith('test/')) continue
    for (const span of file.functions) {
      if (span.lines <= FUNCTION_LINES_MAX || exceptions.has(`${file.path} ${span.name}`)) continue
      findings.push({ path: file.path, line: span.line, text: `${span.name} has ${span.lines} lines; at most ${FUNCTION_LINES_MAX}` })
    }
  }
  return findings
}

export function nonNullFindings(facts: Facts): Finding[] {
  return [...facts.values()].flatMap((file) =>
    file.nonNullLines.map((line) => ({ path: file.path, line, text: 'no ! assertion: use defined() of core/assert.ts or a check' })),
  )
}

/** Files of `src/` that no root reaches. */
export function deadFileFindings(facts: Facts, roots: readonly string[], exceptions: ReadonlyMap<string, string>): Finding[] {
  const reached = new Set<string>()
  const open = roots.filter((root) => facts.has(root))
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (reached.has(name)) continue
    reached.add(name)
    for (const imported of facts.get(name)?.imports ?? []) if (imported.target !== null) open.push(imported.target)
  }
  return [...facts.keys()]
    .filter((path) => path.startsWith('src/') && !reached.has(path) && !exceptions.has(path))
    .map((path) => ({ path, line: 1, text: 'nothing that ships imports this file' }))
}

/** Values exported by `src/` that no other file takes, tests included. Types may be exported for the signatures that name them. */
export function deadExportFindings(facts: Facts, roots: readonly string[]): Finding[] {
  const taken = new Map<string, Set<string>>()
  for (const file of facts.values()) {
    for (const imported of file.imports) {
      if (imported.target === null) continue
      const names = taken.get(imported.target) ?? new Set()
      for (const name of imported.names) names.add(name)
      taken.set(imported.target, names)
    }
  }
  const findings: Finding[] = []
  for (const file of facts.values()) {
    if (!file.path.startsWith('src/') || roots.includes(file.path) || file.path.endsWith('.generated.ts')) continue
    const names = taken.get(file.path)
    if (names?.has('*')) continue
    for (const exported of file.exports) {
      if (!exported.isType && !names?.has(exported.name))
        findings.push({ path: file.path, line: exported.line, text: `nobody imports ${exported.name}: drop the export` })
    }
  }
  return findings
}

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createVirtualFileSystem } from 'typescript/unstable/fs'
import { API, type APIOptions } from 'typescript/unstable/sync'
import { ROOT } from '../support/root.ts'
import { type FileFacts, factsOf } from './facts.ts'

/** Facts of every file that the project compiles, by path. Asked of the compiler once a process. */
export function projectFacts(): ReadonlyMap<string, FileFacts> {
  cached ??= parse(ROOT, join(ROOT, 'tsconfig.json'))
  return cached
}

let cached: ReadonlyMap<string, FileFacts> | undefined

/** Facts of files that exist only in the test, by path from an imagined project folder. */
export function factsFrom(files: Readonly<Record<string, string>>): ReadonlyMap<string, FileFacts> {
  const root = '/planted'
  const contents = Object.fromEntries(Object.entries(files).map(([path, text]) => [`${root}/${path}`, text]))
  contents[`${root}/tsconfig.json`] = JSON.stringify({
    compilerOptions: { noLib: true, types: [], module: 'NodeNext' },
    include: ['**/*.ts'],
  })
  return parse(root, `${root}/tsconfig.json`, createVirtualFileSystem(contents))
}

function parse(root: string, project: string, fs?: APIOptions['fs']): ReadonlyMap<string, FileFacts> {
  const api = new API({ cwd: fs ? ROOT : root, ...(fs ? { fs } : {}) })
  try {
    const program = api.updateSnapshot({ openProjects: [project] }).getProject(project)?.program
    if (!program) throw new Error(`the compiler does not know the project ${project}`)
    const prefix = root.endsWith('/') ? root : `${root}/`
    const facts = new Map<string, FileFacts>()
    for (const name of program.getSourceFileNames()) {
      if (!name.startsWith(prefix) || name.includes('/node_modules/')) continue
      const file = program.getSourceFile(name)
      if (file) facts.set(name.slice(prefix.length), factsOf(name.slice(prefix.length), file))
    }
    if (facts.size === 0) throw new Error(`the compiler found no files in ${root}`)
    return facts
  } finally {
    api.close()
  }
}

/** Folders of `src/` that exist. */
export function sourceFolders(): string[] {
  return readdirSync(join(ROOT, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort()
}

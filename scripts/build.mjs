// Compiles everything to dist/, drops what has no source any more, and bundles the command into dist/bin.
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { filesBelow, ROOT, SOURCE_FOLDERS, STAMP, sourceStamp } from './build-files.mjs'

/** Entry of the command: exports `main()`. */
const ENTRY = join(ROOT, 'dist', 'src', 'cli', 'main.js')

/**
 * Stay in node_modules: native or WebAssembly packages, and what only a few commands load. The rest of the start path is in the
 * bundle because reading one file is faster than resolving a hundred.
 */
const EXTERNAL = ['@node-rs/crc32', 'lz4-napi', '@bokuweb/zstd-wasm', 'prom-client', 'commander']

/** Reads while many syncs are in flight need threads of their own. One run on two cores: 16 took a tenth more durable records than Node's 4. */
const THREAD_POOL_SIZE = 16

/**
 * How far the heap may grow between full collections, in percent. Record batches live outside of V8's heap but count against its
 * limit, which for a small heap is reached every ten megabytes: measured, a bulk producer then spends half of the processor in
 * full collections (36 for 300 MB of batches, 4 with this), for 25 MB more at the peak. Only the command sets it: a process that
 * embeds the broker keeps its own flags.
 */
const HEAP_GROWING_PERCENT = 600

const LAUNCHER = `#!/usr/bin/env node
'use strict'
// The size of the thread pool counts only when it is set before the pool's first use; an ES module would be too late.
process.env.UV_THREADPOOL_SIZE ??= '${THREAD_POOL_SIZE}'
require('node:v8').setFlagsFromString('--heap-growing-percent=${HEAP_GROWING_PERCENT}')
import('./moonmq.mjs')
  .then((command) => command.main())
  .catch((error) => {
    console.error(error)
    process.exitCode = 1
  })
`

// Taken before compiling: a file that changes meanwhile leads to another build, not to a stale one.
const stamp = sourceStamp()
rmSync(STAMP, { force: true })
compile()
dropStale()
copyData()
if (existsSync(ENTRY)) await bundle()
writeFileSync(STAMP, stamp)

function compile() {
  const tsc = spawnSync(process.execPath, [join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.json'], {
    cwd: ROOT,
    stdio: 'inherit',
  })
  if (tsc.status !== 0) process.exit(tsc.status ?? 1)
}

/** A compiled test whose source was deleted would go on running. */
function dropStale() {
  for (const folder of SOURCE_FOLDERS) {
    for (const path of filesBelow(`dist/${folder}`)) {
      const source = path.slice('dist/'.length)
      const compiled = /^(.*?)(\.d\.ts|\.js)(\.map)?$/.exec(source)
      const original = compiled ? `${compiled[1]}.ts` : source
      if (!existsSync(join(ROOT, original))) rmSync(join(ROOT, path))
    }
  }
}

/** Data that modules read at run time lies beside them. */
function copyData() {
  for (const path of filesBelow('src')) {
    if (path.endsWith('.ts')) continue
    const target = join(ROOT, 'dist', path)
    if (existsSync(target) && statSync(target).mtimeMs >= statSync(join(ROOT, path)).mtimeMs) continue
    mkdirSync(dirname(target), { recursive: true })
    copyFileSync(join(ROOT, path), target)
  }
}

async function bundle() {
  const { build } = await import('esbuild')
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const folder = join(ROOT, 'dist', 'bin')
  rmSync(folder, { recursive: true, force: true })
  await build({
    entryPoints: { moonmq: ENTRY, 'codec-thread': join(ROOT, 'dist', 'src', 'server', 'codec-thread.js') },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    // Each command is loaded when it is called; in one file all would load what any of them imports.
    splitting: true,
    chunkNames: 'parts/[name]-[hash]',
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    external: EXTERNAL,
    legalComments: 'none',
    sourcemap: 'linked',
    logLevel: 'warning',
    // pino is CommonJS and asks for Node's modules with require().
    banner: {
      js: `import { createRequire as moonmqCreateRequire } from 'node:module'; const require = moonmqCreateRequire(import.meta.url); // moonmq ${version}`,
    },
  })
  const launcher = join(folder, 'moonmq.cjs')
  writeFileSync(launcher, LAUNCHER)
  chmodSync(launcher, 0o755)
}

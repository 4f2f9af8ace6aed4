// Makes a fresh clone ready: installs the packages of the lock file and builds, each only when needed. Needs Node alone.
import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { builtStamp, ROOT, sourceStamp } from './build-files.mjs'

const LOCK = join(ROOT, 'package-lock.json')
const MODULES = join(ROOT, 'node_modules')
/** npm writes what it installed here, so its time is the time of the last install. */
const INSTALLED = join(MODULES, '.package-lock.json')

checkNodeVersion()
if (!installedIsCurrent()) install()
if (builtStamp() !== sourceStamp()) build()

function checkNodeVersion() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 19)) return
  console.error(`MoonMQ needs Node 20.19 or newer; this is ${process.version}.`)
  process.exit(1)
}

function installedIsCurrent() {
  if (!existsSync(INSTALLED)) return false
  if (statSync(INSTALLED).mtimeMs >= statSync(LOCK).mtimeMs) return true
  // A checkout gives the lock file a new time without new content: what counts then is whether every version is there.
  return sameVersions(packagesOf(LOCK), packagesOf(INSTALLED))
}

function packagesOf(path) {
  return JSON.parse(readFileSync(path, 'utf8')).packages
}

function sameVersions(wanted, installed) {
  for (const [path, row] of Object.entries(wanted)) {
    if (path === '' || row.optional) continue
    if (installed[path]?.version !== row.version) return false
  }
  return Object.keys(installed).every((path) => wanted[path] !== undefined)
}

function install() {
  if (existsSync(MODULES) && lstatSync(MODULES).isSymbolicLink()) {
    console.error('node_modules is a link to an install that does not match package-lock.json; run npm ci where it points to.')
    process.exit(1)
  }
  console.error('moonmq: installing packages (npm ci)')
  run('npm', ['ci', '--no-audit', '--no-fund'])
}

function build() {
  console.error('moonmq: building')
  run(process.execPath, [join(ROOT, 'scripts', 'build.mjs')])
}

function run(command, args) {
  // The output of the steps goes to standard error, so that a caller's standard output stays its own.
  const done = spawnSync(command, args, { cwd: ROOT, stdio: ['ignore', 2, 2], shell: process.platform === 'win32' && command === 'npm' })
  if (done.error) console.error(`${command}: ${done.error.message}`)
  if (done.status !== 0) process.exit(done.status ?? 1)
}

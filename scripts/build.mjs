// Compiles everything to dist/.
import { spawnSync } from 'node:child_process'

const tsc = spawnSync('node_modules/.bin/tsc', ['-p', 'tsconfig.json'], { stdio: 'inherit' })
process.exit(tsc.status ?? 1)

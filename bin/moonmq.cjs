#!/usr/bin/env node
'use strict'
// The command as the package names it: always there, so that npm can link it before anything is built.
const { existsSync } = require('node:fs')
const { join } = require('node:path')

const built = join(__dirname, '..', 'dist', 'bin', 'moonmq.cjs')
if (existsSync(built)) require(built)
else {
  console.error('moonmq is not built yet: run "npm start" here, which also starts a broker, or "npm ci && npm run build".')
  process.exitCode = 1
}

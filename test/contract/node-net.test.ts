import { SystemClock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/logger.ts'
import { NodeNet } from '../../src/io/node-net.ts'
import { netContract } from './net.ts'

netContract('NodeNet', (options) => new NodeNet({ clock: new SystemClock(), log: SILENT }, options))

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { type LoggerOptions, type LogSinks, ProcessLog } from '../../../src/obs/logger.ts'

const TIME = Date.UTC(2026, 0, 2, 3, 4, 5, 678)

function opened(options: Partial<LoggerOptions>) {
  const lines = { stderr: '', file: '' }
  let failFile: ((error: Error) => void) | null = null
  const flushed: string[] = []
  const sink = (name: 'stderr' | 'file') => ({
    write: (line: string) => {
      lines[name] += line
    },
    flush: () => {
      flushed.push(name)
    },
  })
  const sinks: LogSinks = {
    stderr: () => sink('stderr'),
    file: (_, fail) => {
      failFile = fail
      return sink('file')
    },
  }
  const clock = new VirtualClock(TIME)
  const log = new ProcessLog({ clock, sinks }, { level: 'info', file: '', stderr: true, format: 'text', colour: false, ...options })
  return { log, lines, flushed, failFile: (error: Error) => failFile?.(error) }
}

test('text for a terminal: time, level, component, text, fields', () => {
  const { log, lines } = opened({})
  log.logger.info('group.rebalanced', 'group "a" has 2 members', { group: 'a', members: 2 })
  assert.equal(lines.stderr, '2026-01-02T03:04:05.678Z [INFO] [group] group "a" has 2 members group=a members=2\n')
})

test('JSON otherwise, with the fields of a child logger', () => {
  const { log, lines } = opened({ format: 'json' })
  log.logger.child({ connection: 7 }).warn('native.closed', 'gone', { error: new Error('broken') })
  const line = JSON.parse(lines.stderr)
  assert.deepEqual(
    { time: line.time, level: line.level, event: line.event, msg: line.msg, connection: line.connection, error: line.error.message },
    { time: '2026-01-02T03:04:05.678Z', level: 'warn', event: 'native.closed', msg: 'gone', connection: 7, error: 'broken' },
  )
})

test('control characters of a client cannot break a line or colour a terminal', () => {
  const evil = 'a\nb\u001b[31mred\u009b0m\u202ex\u0000'
  for (const format of ['text', 'json'] as const) {
    const { log, lines } = opened({ format })
    log.logger.warn('kafka.malformed', evil, { clientId: evil })
    assert.equal(lines.stderr.split('\n').length, 2, format)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
    assert.doesNotMatch(lines.stderr.slice(0, -1), /[\u0000-\u001f\u007f-\u009f\u202e]/)
    if (format === 'json') assert.equal(JSON.parse(lines.stderr).clientId, evil)
  }
})

test('lines below the level are not written; the level can change', () => {
  const { log, lines } = opened({ level: 'warn' })
  log.logger.info('a.b', 'quiet')
  log.logger.debug('a.b', 'quieter')
  assert.equal(lines.stderr, '')
  log.level = 'debug'
  log.logger.debug('a.b', 'loud')
  assert.match(lines.stderr, /\[DEBUG\] \[a\] loud/)
})

test('a file gets JSON, standard error its own form, and close hands over what is held', async () => {
  const { log, lines, flushed } = opened({ file: 'broker.log' })
  log.logger.info('a.b', 'hello')
  assert.equal(JSON.parse(lines.file).msg, 'hello')
  assert.match(lines.stderr, /\[INFO\] \[a\] hello/)
  await log.close()
  assert.deepEqual(flushed.sort(), ['file', 'stderr'])
})

test('a file that fails is left, and the log goes to standard error', () => {
  const { log, lines, failFile } = opened({ file: '/full/broker.log', stderr: false })
  log.logger.info('a.b', 'before')
  assert.equal(lines.stderr, '')
  failFile(new Error('no space'))
  log.logger.info('a.b', 'after')
  assert.match(lines.stderr, /cannot write the log file \/full\/broker\.log/)
  assert.match(lines.stderr, /after/)
  assert.doesNotMatch(lines.file, /after/)
})

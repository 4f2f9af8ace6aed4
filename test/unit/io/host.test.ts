import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { descriptorLimitOf, FixedHost, hasEnded, NodeHost, startTimeInStat } from '../../../src/io/host.ts'

describe('host', () => {
  it('knows itself and which processes live', () => {
    const host = NodeHost.open()
    assert.equal(host.pid, process.pid)
    assert.ok(host.isAlive(process.pid))
    assert.ok(!host.isAlive(2 ** 30))
    assert.ok(!host.isAlive(0))
    assert.ok(!host.isAlive(-1))
    assert.equal(host.startTimeOf(2 ** 30), null)
    assert.equal(host.startTimeOf(process.pid) ?? '', host.processStartTime)
    if (process.platform === 'linux') {
      assert.match(host.processStartTime, /^\d+$/)
      assert.match(host.bootId, /^[0-9a-f-]{36}$/)
      assert.ok((host.descriptorLimit ?? 0) > (host.openDescriptors() ?? 0))
    }
  })

  it('finds the start time behind any process name', () => {
    const rest = ['S', ...Array.from({ length: 30 }, (_, index) => String(index + 4))].join(' ')
    assert.equal(startTimeInStat(`12 (node) ${rest}`), '22')
    assert.equal(startTimeInStat(`12 (a) b (c d) ${rest}`), '22')
    assert.equal(startTimeInStat(''), null)
  })

  it('counts a process as ended when it waits to be collected and none of its threads runs', () => {
    const stat = (state: string, threads: number) =>
      `12 (node) ${[state, ...Array.from({ length: 30 }, (_, index) => (index + 4 === 20 ? threads : 1))].join(' ')}`
    assert.ok(hasEnded(stat('Z', 1)))
    assert.ok(hasEnded(stat('X', 0)))
    assert.ok(!hasEnded(stat('Z', 2)))
    assert.ok(!hasEnded(stat('S', 1)))
    assert.ok(!hasEnded(''))
  })

  it('reads the limit of descriptors', () => {
    const line = (soft: string) =>
      `Limit   Soft Limit   Hard Limit   Units\nMax processes  1  2  processes\nMax open files   ${soft}   4096   files\n`
    assert.equal(descriptorLimitOf(line('1024')), 1024)
    assert.equal(descriptorLimitOf(line('unlimited')), Number.POSITIVE_INFINITY)
    assert.equal(descriptorLimitOf(line('many')), null)
    assert.equal(descriptorLimitOf(''), null)
  })

  it('is what it is told in tests', () => {
    const host = new FixedHost({
      pid: 7,
      processes: new Map([
        [7, '70'],
        [8, '80'],
      ]),
    })
    assert.equal(host.processStartTime, '70')
    assert.equal(host.startTimeOf(8), '80')
    assert.equal(host.startTimeOf(9), null)
    assert.ok(!host.isAlive(9))
  })
})

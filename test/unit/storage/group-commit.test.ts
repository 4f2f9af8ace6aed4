import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deferred } from '../../../src/core/deferred.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { DEFAULT_GROUP_COMMIT, GroupCommit } from '../../../src/storage/group-commit.ts'
import type { SyncTarget } from '../../../src/storage/sync-target.ts'

class FakeFile implements SyncTarget {
  takenOffset = 0
  readonly syncs: ReturnType<typeof deferred<void>>[] = []
  readonly reached: number[] = []
  failure: unknown = null
  readonly isStopped = false
  readonly journalBytes = Number.POSITIVE_INFINITY

  sync(): Promise<void> {
    const sync = deferred<void>()
    this.syncs.push(sync)
    return sync.promise
  }

  syncBehind(): never {
    throw new Error('there is no journal')
  }

  takeForJournal(): never {
    throw new Error('it is never small')
  }

  journaled(): void {}

  synced(offset: number): void {
    this.reached.push(offset)
  }

  failed(error: unknown): void {
    this.failure = error
  }
}

function fixture(options: Partial<typeof DEFAULT_GROUP_COMMIT> = {}) {
  const clock = new VirtualClock()
  return { clock, commit: new GroupCommit({ clock }, { ...DEFAULT_GROUP_COMMIT, ...options }) }
}

test('one sync in flight for each file; all that comes meanwhile shares the next', async () => {
  const { clock, commit } = fixture()
  const file = new FakeFile()
  for (let offset = 1; offset <= 3; offset++) {
    file.takenOffset = offset
    commit.report(file)
  }
  assert.equal(file.syncs.length, 1)
  file.syncs[0]?.resolve()
  await clock.advance(0)
  // The first sync was asked for when one batch was written: it vouches for no more.
  assert.deepEqual(file.reached, [1])
  assert.equal(file.syncs.length, 2)
  file.syncs[1]?.resolve()
  await clock.advance(0)
  assert.deepEqual(file.reached, [1, 3])
  assert.equal(commit.pending, 0)
})

test('at most maxSyncs files are synced at the same time, first come first served', async () => {
  const { clock, commit } = fixture({ maxSyncs: 2 })
  const files = [new FakeFile(), new FakeFile(), new FakeFile(), new FakeFile()]
  for (const file of files) commit.report(file)
  assert.deepEqual(
    files.map((file) => file.syncs.length),
    [1, 1, 0, 0],
  )
  files[1]?.syncs[0]?.resolve()
  await clock.advance(0)
  assert.deepEqual(
    files.map((file) => file.syncs.length),
    [1, 1, 1, 0],
  )
})

test('a failed sync is told once, and the file is not synced again', async () => {
  const { clock, commit } = fixture()
  const file = new FakeFile()
  commit.report(file)
  commit.report(file)
  file.syncs[0]?.reject(new Error('EIO'))
  await clock.advance(0)
  assert.equal((file.failure as Error).message, 'EIO')
  assert.deepEqual([file.syncs.length, file.reached.length, commit.pending], [1, 0, 0])
})

test('linger waits for company, for maxWaiters at most; hurry ends it', async () => {
  const { clock, commit } = fixture({ lingerMs: 5, maxWaiters: 3 })
  const file = new FakeFile()
  commit.report(file)
  assert.equal(file.syncs.length, 0)
  await clock.advance(5)
  assert.equal(file.syncs.length, 1)
  file.syncs[0]?.resolve()
  await clock.advance(0)
  for (let count = 0; count < 3; count++) commit.report(file)
  assert.equal(file.syncs.length, 2)
  file.syncs[1]?.resolve()
  await clock.advance(0)
  commit.report(file)
  commit.hurry(file)
  assert.equal(file.syncs.length, 3)
  assert.equal(clock.pendingTimers, 0)
})

test('writers run once at the end of the turn', async () => {
  const { clock, commit } = fixture()
  let runs = 0
  const writer = { writeQueued: () => void runs++ }
  commit.writeSoon(writer)
  commit.writeSoon(writer)
  assert.equal(runs, 0)
  await clock.advance(0)
  assert.equal(runs, 1)
})

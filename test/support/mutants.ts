/** A bug that is put into a copy of the compiled program, never into the program: the tests named must find it. */
export interface Mutant {
  readonly name: string
  /** Below `dist/src/`. */
  readonly file: string
  /** Stands there exactly once. */
  readonly find: string
  readonly replace: string
  /** Below `dist/test/`, the likeliest first: one that turns red is enough. */
  readonly tests: readonly string[]
}

const STORAGE = 'unit/storage'

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'acknowledged before the sync',
    file: 'storage/log-durability.js',
    find: '        this.#taken = endOffset;\n        const target',
    replace: '        this.#taken = endOffset;\n        this.#advance(endOffset);\n        const target',
    tests: [`${STORAGE}/partition-log.test.js`, `${STORAGE}/failure.test.js`, `${STORAGE}/history.test.js`],
  },
  {
    name: 'a sync that failed counts as done',
    file: 'storage/segment-target.js',
    find: '                await file.datasync();\n            else',
    replace: '                await file.datasync().catch(() => {});\n            else',
    tests: [`${STORAGE}/failure.test.js`],
  },
  {
    name: 'the marker of a clean stop is trusted twice',
    file: 'storage/checkpoint.js',
    find: '    await disk.removeFile(path);\n    await disk.syncDirectory(directoryOf(path));\n    return marker;',
    replace: '    return marker;',
    tests: ['sim/recovery-cases.test.js', `${STORAGE}/log-manager.test.js`],
  },
  {
    name: 'an index entry is one off',
    file: 'storage/offset-index.js',
    find: 'bytes.writeUInt32BE(lastOffset - this.#baseOffset, at)',
    replace: 'bytes.writeUInt32BE(lastOffset - this.#baseOffset + 1, at)',
    tests: [`${STORAGE}/lookups.test.js`, `${STORAGE}/validate.test.js`, 'sim/recovery-cases.test.js'],
  },
  {
    name: 'a tombstone is dropped as soon as it is seen',
    file: 'storage/compaction/survivors.js',
    find: 'return horizonMs === null || survival.nowMs < horizonMs;',
    replace: 'return false;',
    tests: [`${STORAGE}/compaction/pass.test.js`, `${STORAGE}/compaction/model.test.js`],
  },
  {
    name: 'compaction keeps an older record of a key instead of the latest',
    file: 'storage/compaction/survivors.js',
    find: 'record.offset < survival.latest.get(key)',
    replace: 'record.offset >= survival.latest.get(key)',
    tests: [`${STORAGE}/compaction/pass.test.js`, `${STORAGE}/compaction/model.test.js`],
  },
  {
    name: 'recovery keeps a torn tail',
    file: 'storage/recovery.js',
    find: 'await file.truncate(scan.endPosition);',
    replace: '',
    tests: [`${STORAGE}/recovery.test.js`, `${STORAGE}/damage.test.js`, 'sim/recovery-cases.test.js'],
  },
  {
    name: 'recovery cuts what was acknowledged',
    file: 'storage/recovery.js',
    find: 'if (fault.offset < options.acknowledgedOffset) {',
    replace: 'if (false) {',
    tests: [`${STORAGE}/damage.test.js`, `${STORAGE}/recovery.test.js`],
  },
  {
    name: 'a checkpoint is not lowered before a truncation',
    file: 'storage/partition-log.js',
    find: 'await this.#options.onTruncate?.(recoveryPoint);',
    replace: '',
    tests: [`${STORAGE}/failpoints.test.js`, `${STORAGE}/log-manager.test.js`, 'sim/recovery-cases.test.js'],
  },
  {
    name: 'leader epochs do not rise after an unclean stop',
    file: 'server/data.js',
    find: 'raiseLeaderEpochs: !logs.wasClean,',
    replace: 'raiseLeaderEpochs: false,',
    tests: ['integration/broker-storage.test.js'],
  },
  {
    name: 'the start of a log passes the high watermark',
    file: 'storage/partition-log.js',
    find: 'const start = Math.min(offset, this.#durability.highWatermark);',
    replace: 'const start = offset;',
    tests: [`${STORAGE}/partition-log.test.js`, `${STORAGE}/retention.test.js`, 'sim/partition-interleavings.test.js'],
  },
  {
    name: 'a resend is stored a second time',
    file: 'storage/producer-state.js',
    find: 'if (batch.baseSequence === baseSequence && batch.lastSequence === endSequence)',
    replace: 'if (false)',
    tests: [`${STORAGE}/producer-state.test.js`],
  },
  {
    name: 'a gap in the sequence of a producer is taken',
    file: 'storage/producer-state.js',
    find: 'if (baseSequence !== expected)',
    replace: 'if (baseSequence < expected)',
    tests: [`${STORAGE}/producer-state.test.js`],
  },
  {
    name: 'a folder is not synced after a rename',
    file: 'io/atomic-file.js',
    find: '    await placeFile(disk, path, parts);\n    await disk.syncDirectory(directoryOf(path));',
    replace: '    await placeFile(disk, path, parts);',
    tests: ['unit/io/atomic-file.test.js'],
  },
  {
    name: 'a small file is renamed before it is synced',
    file: 'io/atomic-file.js',
    find: '        await file.write(parts, 0);\n        await file.datasync();',
    replace: '        await file.write(parts, 0);',
    tests: ['unit/io/atomic-file.test.js'],
  },
  {
    name: 'a cold read checks no checksum',
    file: 'storage/cold-read.js',
    find: 'if (!batchCrcMatches(this.buffer, at, header)) {',
    replace: 'if (false) {',
    tests: [`${STORAGE}/damage.test.js`, `${STORAGE}/reads.test.js`],
  },
  {
    name: 'what a failed sync left in doubt is not written again',
    file: 'storage/recovery.js',
    find: 'if (rewriteFrom !== null && lastOffset >= rewriteFrom)',
    replace: 'if (false)',
    tests: [`${STORAGE}/failure.test.js`],
  },
  {
    name: 'aborted transactions are not indexed when they are appended',
    file: 'storage/partition-log.js',
    find: '            segment.txnIndex.append(completed);',
    replace: '',
    tests: [`${STORAGE}/kept-parts.test.js`],
  },
  {
    name: 'a segment that still holds readable records is deleted',
    file: 'storage/segment-upkeep.js',
    find: 'second.baseOffset > offset',
    replace: 'first.baseOffset >= offset',
    tests: [`${STORAGE}/kept-parts.test.js`],
  },
  {
    name: 'a full disk is no reason to refuse',
    file: 'storage/space-guard.js',
    find: 'if (this.isLow && !usesReserve)',
    replace: 'if (false)',
    tests: [`${STORAGE}/space-guard.test.js`, 'faults/full-disk.ci.test.js'],
  },
  {
    name: 'the journal is replayed over a log that was cut since',
    file: 'storage/group-commit.js',
    find: 'await this.#rounds?.forget(owner);',
    replace: '',
    tests: [`${STORAGE}/journal-crash.test.js`, `${STORAGE}/journal.test.js`],
  },
  {
    name: 'compaction drops the last sequence of a living producer',
    file: 'storage/compaction/survivors.js',
    find: ' || isLastOfProducer(header, lastOffset, survival)',
    replace: '',
    tests: [`${STORAGE}/compaction/pass.test.js`],
  },
  {
    name: 'a partition is granted while its former owner still has it',
    file: 'broker/groups/consumer/reconcile.js',
    find: 'else if (isFree(topic, partition))',
    replace: 'else if (true)',
    tests: ['sim/group-histories.test.js', 'unit/broker/groups/consumer-group.test.js'],
  },
  {
    name: 'what a member has to give back counts as given back at once',
    file: 'broker/groups/consumer/reconcile.js',
    find: 'if (stillHolds(taken))',
    replace: 'if (false)',
    tests: ['sim/group-histories.test.js', 'unit/broker/groups/consumer-group.test.js'],
  },
  {
    name: 'a member that was put out of its group may still commit',
    file: 'broker/groups/consumer/consumer-group.js',
    find: 'if (member === undefined)\n            return this.#unknown(claim.memberId);',
    replace: 'if (member === undefined)\n            return null;',
    tests: ['sim/group-histories.test.js', 'unit/broker/groups/consumer-group.test.js'],
  },
  {
    name: 'nobody looks whether the file has a name',
    file: 'storage/segment-target.js',
    find: '            this.#expectName();',
    replace: '',
    tests: ['integration/removed-folder.test.js'],
  },
  {
    name: 'a record is taken back although somebody else holds it',
    file: 'broker/share/share-partition.js',
    find: "(span.state === 'acquired' && span.member === member))",
    replace: "span.state === 'acquired')",
    tests: ['unit/broker/share/share-partition.test.js', 'sim/share-partition-model.test.js'],
  },
  {
    name: 'an acknowledgement is answered before it is durable',
    file: 'broker/share/share-service.js',
    find: 'return this.states.whenDurable(entry);\n    }\n    #count',
    replace: 'return undefined;\n    }\n    #count',
    tests: ['unit/broker/share/share-groups.test.js'],
  },
  {
    name: 'a dead letter is written again after a crash',
    file: 'broker/share/dead-work.js',
    find: "mayRepeat: range.reason === 'resumed'",
    replace: 'mayRepeat: false',
    tests: ['integration/share-power-cut.test.js'],
  },
  {
    name: 'a record is delivered without end',
    file: 'broker/share/share-partition.js',
    find: 'if (span.deliveries >= rules.maxDeliveries)\n            this.#bury',
    replace: 'if (false)\n            this.#bury',
    tests: ['unit/broker/share/share-partition.test.js', 'sim/share-partition-model.test.js'],
  },
  {
    name: 'a partition is granted to a native member while another still reads it',
    file: 'broker/groups/native/native-group.js',
    find: 'return holder === undefined || holder === member.memberId;',
    replace: 'return true;',
    tests: ['unit/native/members.test.js', 'sim/group-handover.test.js'],
  },
  {
    name: 'a native member that is silent stays',
    file: 'broker/groups/native/native-group.js',
    find: 'if (deadlineMs <= nowMs)',
    replace: 'if (false)',
    tests: ['sim/native-group-histories.test.js', 'unit/native/groups.test.js'],
  },
  {
    name: 'a native member reads on where it was itself, although another went on meanwhile',
    file: 'broker/consume/consumer-session.js',
    find: 'position.grant !== (grants.get(partition) ?? null)',
    replace: 'false',
    tests: ['sim/native-group-histories.test.js'],
  },
]

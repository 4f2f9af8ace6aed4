/** Prints docs/PROTOCOL.md from the tables of `src/wire`. */
import { ERRORS } from '../src/core/errors.ts'
import { isAllowed } from '../src/native/dispatch.ts'
import { DEFAULT_NATIVE_DOOR } from '../src/native/options.ts'
import type { ConnectionState } from '../src/native/session.ts'
import {
  FRAME_HEADER_BYTES,
  MAX,
  MAX_COUNT,
  MAX_FETCH_BYTES,
  MAX_FETCH_RECORDS,
  MAX_READ_PART_BYTES,
  MAX_READ_WAIT_MS,
  MAX_REPLY_FRAME_BYTES,
} from '../src/wire/limits.ts'
import { layoutOf } from '../src/wire/messages.ts'
import { FEATURE_EXTENSION, OPCODES, type OpName } from '../src/wire/opcodes.ts'

const OPS = Object.entries(OPCODES) as readonly (readonly [OpName, (typeof OPCODES)[OpName]])[]

function hex(code: number): string {
  return `0x${code.toString(16).padStart(2, '0').toUpperCase()}`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`
  return [line(head), `|${head.map(() => ' --- |').join('')}`, ...rows.map(line)].join('\n')
}

/** What a request does beyond its layout. */
const NOTES: Readonly<Partial<Record<OpName, string>>> = {
  HELLO: 'First frame of a connection. Version 1; any other: code 8, closed.',
  IDENTIFY_CLIENT:
    'Optional, any number of times after HELLO. `features`: bits that the client understands. Without the extension bit the broker speaks plain version 1.',
  IDENTIFY_ACK: '`features`: bits that the broker offers; `maxFrameBytes`: largest length it takes. Clients of version 1 ignore both.',
  AUTH: 'Without credentials on the broker every name and password is taken.',
  AUTH_SCRAM: 'Without credentials on the broker: code 4, closed. Unknown mechanism: code 8, closed.',
  AUTH_SCRAM_FINAL: 'Without a first message: code 8, closed.',
  GOODBYE: 'The broker answers what came before, then closes.',
  ERROR: '`name` only for clients that asked for the extension: the name of the error in docs/ERRORS.md.',
  PRODUCE: 'Codec 0 none, 1 gzip, 2 snappy: how the value is stored; it travels uncompressed. An empty key is none.',
  PRODUCE_BATCH: 'Flag 0x01: idempotent, at most 1024 records (code 14). Not atomic: each record is partitioned by itself.',
  PRODUCE_BATCH_ACK:
    'The acks are for the first n records. A code other than 0: the rest was not acknowledged, and what follows a record that was refused was not written: send it again.',
  INIT_PRODUCER_ID:
    'An empty name, or none: a fresh id with epoch 0 that is this connection alone. A name keeps its id; each session of it gets the next epoch (from 0) and fences the one before, whose open transaction is aborted. At epoch 32766 the name gets another id with epoch 0. A second one on a connection replaces the first: its transaction is aborted, its sequences are forgotten.',
  PRODUCE_IDEMPOTENT:
    'Sequences count per producer and topic from 0, over all partitions, single records and batches alike; those above 2147483647 are code 11. The next one is stored, the last request again gets its acks again, and what was refused with code 7 may be sent again, whole or the part that was not acknowledged: it is stored once. Anything else: code 11. Code 10 without INIT_PRODUCER_ID, 8 for the id of another connection, 50 for an epoch that is over. Of a producer without a name the epoch is not looked at. May be followed by further requests before its answer.',
  BEGIN_TXN:
    'Until END_TXN, idempotent requests of this connection belong to the transaction; PRODUCE and plain batches do not. Code 51 without a named producer, or while a transaction is open or being ended; 50 when another session has the name. A transaction that is open for more than 60 s, counted from its first record, is aborted; closing the connection and a restart of the broker abort it too. The epoch stays.',
  END_TXN:
    '0 aborts, anything else commits. Answered when the end is durable in every partition. After code 7 the outcome is decided: repeat it with the same choice, also from the next session of the name. Code 52: it was open for too long and is aborted. Code 51 when none is open, or it was ended the other way.',
  TXN_OFFSET_COMMIT:
    'Offsets count when the transaction is committed, and move no running consumer. Those of partitions that do not exist are left out.',
  FETCH:
    'Never waits. Isolation 1: read committed. Flag 0x01: answer with RECORD_BATCH. Reads all topics named so far on the connection. The position after what is delivered is stored for the group; the answer does not wait for its sync.',
  COMMIT: 'The offset of the next record to deliver. Needs a FETCH before (code 8). Answered after the sync. Moves no position.',
  LIST_OFFSETS: 'Mode 0 or absent: bounds. Mode 1: also the first offset at or after the time.',
  OFFSETS:
    'Flags 0x01 high watermark exact, 0x02 LSO known, 0x04 local; for times 0x01 found. A partition that cannot be served (its files are damaged or its disk failed) comes with flags 0, and its numbers mean nothing; code 7 where that is all of them.',
  CREATE_TOPIC: 'Not idempotent: an existing topic is code 7. 1 to 1024 partitions.',
  LIST_TOPICS: 'Sorted; internal topics are left out; cut at `server.maxListTopics`.',
  DESCRIBE_TOPIC:
    'Only settings that were set: `max_segment_size`, `retention` (seconds), `max_log_bytes`, `cleanup_policy`, `cleaner_interval` (seconds), `backend`, others by their own names.',
  ALTER_TOPIC_CONFIG:
    "All or nothing; takes effect at once. `max_segment_size` (bytes), `retention` (seconds), `max_log_bytes` (bytes), `cleaner_interval` (seconds): numbers of at least 1, fractions cut off. `cleanup_policy`: `delete`, `compact` or `compact,delete`. `backend` cannot be changed. Others by Kafka's names. Code 17 for an unknown key or a bad value, 18 for an internal topic.",
  CREATE_PARTITIONS: '`total` is the new count and must grow (code 21).',
  JOIN_GROUP:
    "The connection becomes a member of the group; the broker assigns: per topic, ranges over the members in the order of their ids. An empty id: the connection's earlier one, else eight hexadecimal digits of the broker's choice. Joining again says anew what is read and tells what is assigned; another id takes the place of the first. Topics that are missing: code 5. A second group, or one other than FETCH names: 13; an id that another connection has, or a group whose members speak another protocol: 13. 1024 groups with members: 6.",
  GROUP_ASSIGNMENT:
    'Topics in byte order, those without a partition for this member too. A partition that its former owner still reads comes later.',
  LEAVE_GROUP:
    "The connection's own membership is meant, whatever the id says; code 12 when it is not in the group. It then reads all partitions again.",
  GROUP_HEARTBEAT:
    'As LEAVE_GROUP; without one, or a JOIN_GROUP, for 30 s a member is dropped by a sweep every 10 s. Then its FETCH, COMMIT and heartbeats are code 12 until it joins again.',
  GROUP_LIST: 'Groups of every kind, those that only hold offsets too, by name; cut at the limit of the count.',
  DESCRIBE_GROUP: 'Code 15 for a group that is not there.',
  GROUP_DESCRIPTION:
    'States: `empty`, `preparing_rebalance`, `completing_rebalance` (a partition waits for its former owner to stop), `stable`, `dead`. Members by id, offsets by topic and partition, all cut at the limits of the counts.',
  DELETE_GROUP: 'Takes the offsets away; durable when answered. Code 16 while there are members, 15 where there is no group.',
  MEMBER_JOIN:
    'As JOIN_GROUP, for a member that says itself when it has let go of a partition. Whoever has not let go `rebalanceTimeoutMs` after it was told is dropped.',
  MEMBER_SYNC: 'What the member still holds; what it does not name is given to its next owner. Counts as a heartbeat.',
  MEMBER_STATE:
    'What the member may read, and holds from now on. What it held and does not find here it stops reading, commits, and then syncs without it: until then its commits are taken, afterwards they are code 12.',
  GROUP_CHANGED: 'With the zero id, at any time: a MEMBER_SYNC will tell something new.',
  GROUPS: 'Groups of every kind. `after`: only names behind this one.',
  GROUP_NAMES:
    'By name. `kind`: `classic`, `consumer`, `share` or `native`. `more` 1: there are more, which are asked for with the last name as `after`.',
  GROUP: 'A group of any kind, in full.',
  GROUP_DETAILS: 'Members by id, offsets by topic and partition. `end`: the high watermark, −1 where the partition is gone.',
  PULL: 'As FETCH, with headers, null values and values as large as READ gives them; `maxBytes` 0: as much as an answer may have. Positions, COMMIT and NACK are those of FETCH. A connection reads by FETCH or by PULL, not by both (code 8).',
  PULLED: 'Of all topics that were named so far. Empty when there is nothing now.',
  DELETE_POSITIONS: 'The group forgets these offsets. Code 16 for a topic that a member reads.',
  SEND: 'Acks 0 none (answered after the append), 1 leader (after the sync), 2 all. Codec 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. Partition −1: by the key, or the broker chooses. May be followed by further requests before its answer; answers keep the order.',
  SENT: 'A result for each record in order. `error` 0: stored, offset −1 with acks none; else the place of its error in the list, from 1.',
  OPEN_PRODUCER:
    'Producer id −1: a new one; else the producer goes on with the id and epoch that it had. Without a name no session is needed: any connection may go on. A name belongs to the connection, as with INIT_PRODUCER_ID, and to go on it must be in that epoch (code 50); what an earlier connection left open is aborted, and END_TXN may be repeated. Timeout 0: 60 s.',
  SEND_SEQUENCED:
    'One batch a partition, with the number of its first record; numbers count per producer and partition and go from 2147483647 to 0. One of the last five batches again is answered with where it is, also after a restart; a gap is code 11. Flag 0x01: the batches belong to the open transaction of the named producer of this connection; with none open, or without the flag while one is, code 51. Acks 1 leader, 2 all. May be followed by further requests before its answer.',
  SENT_SEQUENCED: 'A result for each batch in order: offset of its first record, and `error` as in SENT.',
  READ: 'Start 0: at offset `value`; 1: earliest; 2: latest (the high watermark, or the last stable offset with isolation 1); 3: first record at or after the time `value`. Waits up to `maxWaitMs` on all partitions at once, until one of them has something. Nothing is committed.',
  READ_RESULT:
    'Parts in the order of the request. `nextOffset` is where to go on, past what is hidden from the reader. A partition that is refused says why; the others are served.',
  LIST: 'Flag 0x01: with internal topics. `after`: only names behind this one.',
  LISTING: 'By name. `more` 1: there are more, which are asked for with the last name as `after`.',
  DESCRIPTION:
    "Settings that were set, by Kafka's names. All four offsets of a partition are −1 when it is offline: its files are damaged or its disk failed.",
  CREATE: "Partitions −1: the broker's default. Settings by Kafka's names or those of ALTER_TOPIC_CONFIG, `backend` included.",
  GET_POSITIONS: 'Committed offsets of a group.',
  POSITIONS: 'By partition from 0; −1: nothing is committed.',
  DESCRIBE_CONFIG: 'Every setting of a topic in force.',
  CONFIG:
    "By Kafka's names, sorted. `source`: 1 the topic or its backend, 2 and 3 set while running for this broker and for all, 4 the settings file, 5 nobody; `from` is the setting that gave the value. Flag 0x01: chosen when the topic was made, never changed.",
  ALTER_CONFIG: 'All or nothing. `unset` brings defaults back. Flag 0x01: only say whether it could be done.',
  CONFIG_CHANGED: 'Names of the settings that changed, or would.',
  STORE_POSITIONS:
    'Commits for a group, as its member where the connection has joined it (code 12 once that has lapsed), else outside of membership. Answered after the sync.',
}

function messages(extension: boolean): string {
  return OPS.filter(([, op]) => op.extension === extension)
    .map(([name, op]) => {
      const layout = layoutOf(name)
      const from = op.from === 'both' ? 'both sides' : op.from === 'client' ? 'client' : 'broker'
      const lines = [`### ${name} ${hex(op.code)}`, '', `From: ${from}.${op.reply === '' ? '' : ` Reply: ${op.reply}.`}`, '']
      lines.push(layout === '' ? 'Payload: empty.' : `    ${layout}`, '')
      const note = NOTES[name]
      if (note !== undefined) lines.push(note, '')
      return lines.join('\n')
    })
    .join('\n')
}

function errors(): string {
  const byCode = new Map<number, string[]>()
  for (const [name, row] of Object.entries(ERRORS)) byCode.set(row.native, [...(byCode.get(row.native) ?? []), name])
  return table(
    ['Code', 'Errors'],
    [...byCode].sort((a, b) => a[0] - b[0]).map(([code, names]) => [String(code), names.map((name) => `\`${name}\``).join(', ')]),
  )
}

/** As the door decides it. */
function requestsIn(state: ConnectionState): OpName[] {
  return OPS.flatMap(([name, op]) => (op.from !== 'server' && isAllowed(name, state) ? [name] : []))
}

const anyState = requestsIn('new').filter((name) => requestsIn('greeted').includes(name) && requestsIn('authenticated').includes(name))

const STATES = table(
  ['State', 'Requests'],
  [
    ...(['new', 'greeted'] as const).map((state) => [
      state,
      requestsIn(state)
        .filter((name) => !anyState.includes(name))
        .join(', '),
    ]),
    ['authenticated', `everything but ${OPS.flatMap(([name]) => (isAllowed(name, 'authenticated') ? [] : [name])).join(', ')}`],
    ['any', anyState.join(', ')],
  ],
)

function deadlines(): string {
  const limits = DEFAULT_NATIVE_DOOR
  const seconds = (ms: number) => `${ms / 1000} s`
  return table(
    ['Setting', 'Default', 'Rule'],
    [
      ['server.handshakeDeadline', seconds(limits.handshakeDeadlineMs), 'from accept to login; else code 8, closed'],
      ['server.preAuthReadDeadline', seconds(limits.preAuthReadDeadlineMs), 'each frame before login; else code 7, closed'],
      ['server.idleDeadline', seconds(limits.idleDeadlineMs), 'to finish a frame once its first byte has come; else code 7, closed'],
      ['server.heartbeatInterval', seconds(limits.heartbeatIntervalMs), 'the broker asks whoever was quiet for half of it'],
      ['server.heartbeatMissThreshold', String(limits.heartbeatMissThreshold), 'intervals without a byte; then code 7, closed'],
      ['server.sendDeadline', seconds(limits.sendDeadlineMs), 'for what was sent to be taken; else closed without a frame'],
      [
        'server.maxPendingBytes',
        String(limits.maxPendingBytes),
        'queued for a client; a frame that would exceed it closes without a frame',
      ],
      ['server.maxFrameSize', String(limits.maxFrameBytes), 'largest length of a frame from a client; else code 9, closed'],
    ],
  )
}

const FRAMES = `## Frames

    u32 length, u8 opcode, 16 bytes correlation id, payload

\`length\` counts what follows it: ${FRAME_HEADER_BYTES} for an empty payload, never less. Numbers are big-endian. \`str\` is a u32 length and as many
bytes, text in UTF-8. \`bytes?\` is an i32 length and as many bytes; −1 is null. \`[…]\` may be absent at the end of a payload. Bytes after the
last known field are ignored, in both directions.

A reply carries the id of its request. Errors that no request caused carry the zero id. Requests of a connection are handled one after the
other and answered in order. No frame from the broker is longer than ${MAX_REPLY_FRAME_BYTES} bytes: an answer that would be is refused with code 7.

Topics whose names begin with "__" are the broker's own for version 1, whether they exist or not: code 18, and in no list. Clients of the
extension reach those that Kafka's clients made.

Partition numbers of version 1 start at 1 on the wire, those of the extension at 0. Offsets start at 0. Times are milliseconds since 1970.
`

export function protocolDocument(): string {
  const strings = table(
    ['Field', 'Most bytes'],
    Object.entries(MAX).map(([name, most]) => [name, String(most)]),
  )
  const counts = table(
    ['Count', 'Most'],
    Object.entries(MAX_COUNT).map(([name, most]) => [name, String(most)]),
  )
  return `# The native protocol

Printed by \`npm run docs\` from the tables in \`src/wire\`; a test compares. Version 1 of the protocol, and its extension.

${FRAMES}
## States

${STATES}

A request that the state does not allow is refused with code 1. A login or HELLO that is refused closes the connection; its error carries
the request's id and follows every earlier answer.

## Deadlines and bounds

${deadlines()}

## Limits of strings

${strings}

A longer length is refused with code 1 even where the bytes are absent.

## Limits of counts

${counts}

A count that does not fit what is left of the payload is refused with code 1. FETCH gives at most ${MAX_FETCH_RECORDS} records and about
${MAX_FETCH_BYTES} bytes, and refuses a key or value above ${MAX.string} bytes with code 7, naming its offset. Bytes are those on the wire; of
\`server.maxPendingBytes\` an answer of FETCH and READ takes at most half, and a record that would take more than seven tenths is refused.

## Errors

${errors()}

Names and texts: docs/ERRORS.md.

## Messages of version 1

${messages(false)}
## The extension

Offered by bit ${hex(FEATURE_EXTENSION)} of \`features\` in IDENTIFY_ACK, and served to clients that set the bit in IDENTIFY_CLIENT; to others its opcodes are
unknown (code 2). It adds group-less reads, explicit partitions, headers, nulls, acks by request, and topics with settings. READ gives at most
${MAX_FETCH_RECORDS} records and about ${MAX_FETCH_BYTES} bytes, waits at most ${MAX_READ_WAIT_MS} ms, and refuses a key or value above ${MAX_READ_PART_BYTES} bytes. Bit 0x01 is kept
for header blocks in messages of version 1.

${messages(true)}`
}

import type { AnyHandler } from '../session.ts'
import { alterConfig, create, describe, describeConfig, getPositions, list, storeGroupPositions } from './admin.ts'
import { auth, authScram, authScramFinal } from './auth.ts'
import { commit } from './commit.ts'
import { fetch } from './fetch.ts'
import { deleteGroup, describeGroup, groupHeartbeat, joinGroup, leaveGroup, listGroups } from './groups.ts'
import { heartbeat } from './heartbeat.ts'
import { hello } from './hello.ts'
import { produceIdempotent } from './idempotent.ts'
import { identifyClient } from './identify-client.ts'
import { initProducerId } from './init-producer-id.ts'
import { deleteBefore, redrive } from './letters.ts'
import { listOffsets } from './list-offsets.ts'
import { deletePositions, group, groups, memberJoin, memberSync } from './members.ts'
import { nack } from './nack.ts'
import { produce } from './produce.ts'
import { produceBatch } from './produce-batch.ts'
import { pull } from './pull.ts'
import { read } from './read.ts'
import { send } from './send.ts'
import { openProducer, sendSequenced } from './sequenced.ts'
import { credit, settle, stream, unstream } from './stream.ts'
import { subscribe } from './subscribe.ts'
import { alterTopicConfig, createPartitions, createTopic, deleteTopic, describeTopic, listTopics } from './topics.ts'
import { beginTxn, endTxn, txnOffsetCommit } from './transactions.ts'

/** Every request that the native door serves. HEARTBEAT_RESP and GOODBYE have no answer and belong to the connection. */
export const NATIVE_HANDLERS: readonly AnyHandler[] = [
  hello,
  identifyClient,
  auth,
  authScram,
  authScramFinal,
  heartbeat,
  createTopic,
  listTopics,
  deleteTopic,
  describeTopic,
  alterTopicConfig,
  createPartitions,
  listOffsets,
  produce,
  produceBatch,
  fetch,
  pull,
  subscribe,
  stream,
  credit,
  unstream,
  settle,
  redrive,
  deleteBefore,
  commit,
  send,
  read,
  list,
  describe,
  create,
  describeConfig,
  alterConfig,
  getPositions,
  storeGroupPositions,
  initProducerId,
  openProducer,
  sendSequenced,
  produceIdempotent,
  beginTxn,
  endTxn,
  txnOffsetCommit,
  nack,
  joinGroup,
  leaveGroup,
  groupHeartbeat,
  listGroups,
  describeGroup,
  deleteGroup,
  memberJoin,
  memberSync,
  groups,
  group,
  deletePositions,
]

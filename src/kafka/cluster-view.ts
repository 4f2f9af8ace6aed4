import type { OfflinePartition } from '../broker/ports.ts'
import { withDeadline } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import type { PartitionImage } from '../metadata/types.ts'
import { type KafkaCall, kafkaCode } from './handler.ts'

/** What the answers about the cluster have in common: brokers, partitions, authorized operations. */

/** Kafka's AclOperation codes; a bit each in the fields of authorized operations (KIP-430). */
const READ = 3
const WRITE = 4
const CREATE = 5
const DELETE = 6
const ALTER = 7
const DESCRIBE = 8
const CLUSTER_ACTION = 9
const DESCRIBE_CONFIGS = 10
const ALTER_CONFIGS = 11
const IDEMPOTENT_WRITE = 12

/** Kafka's "was not asked for". */
export const OPERATIONS_NOT_ASKED = -2147483648
/** Without access rules everything that the kind of resource knows is allowed. */
export const TOPIC_OPERATIONS = bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
export const GROUP_OPERATIONS = bits(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
export const CLUSTER_OPERATIONS = bits(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)

function bits(...operations: number[]): number {
  return operations.reduce((sum, operation) => sum | (1 << operation), 0)
}

/** Kafka's code of a partition that nobody leads; the broker itself has no error for it. */
const LEADER_NOT_AVAILABLE = 5
const NO_LEADER = -1

export interface BrokerNode {
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
}

/** The brokers that a client of this connection is told of. One broker: itself, as the client reaches it. */
export function brokersFor(call: KafkaCall): readonly BrokerNode[] {
  const { host, port } = call.advertised
  return [{ nodeId: call.broker.cluster.nodeId, host, port, rack: null }]
}

/**
 * One partition as metadata show it. One whose log could not be opened has no leader, as in Kafka. One whose log failed keeps it, since what
 * was acknowledged is still read from there: with KAFKA_STORAGE_ERROR, or with no error when it only waits for space on the disk.
 */
export function partitionAnswer(image: PartitionImage, offline: OfflinePartition | undefined) {
  const hasLeader = offline === undefined || offline.isReadable
  const isError = offline !== undefined && offline.reason.code !== 'STORAGE_FULL'
  return {
    errorCode: !hasLeader ? LEADER_NOT_AVAILABLE : isError ? kafkaCode(offline.reason) : 0,
    partitionIndex: image.partition,
    leaderId: hasLeader ? image.leader : NO_LEADER,
    leaderEpoch: image.leaderEpoch,
    replicaNodes: image.replicas,
    isrNodes: image.isr,
    offlineReplicas: offline === undefined ? [] : image.replicas,
  }
}

/** A fault as an outcome of one item: runs `work` and keeps a MoonMQError, throws anything else on. */
export async function outcome<T>(work: () => Promise<T>): Promise<T | MoonMQError> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof MoonMQError) return error
    throw error
  }
}

/**
 * Work of the controller with the time that its client gives it. No time at all is over before the work begins, as in Kafka: nothing is
 * done. Throws REQUEST_TIMED_OUT; what was begun goes on.
 */
export function withinTimeout<T>({ clock }: KafkaCall, timeoutMs: number, work: () => Promise<T>): Promise<T> {
  if (timeoutMs <= 0) throw new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs })
  return withDeadline(clock, timeoutMs, work())
}

/** Error code and message as many answers carry them. */
export function errorFields(error: MoonMQError | null): { errorCode: number; errorMessage: string | null } {
  return { errorCode: kafkaCode(error), errorMessage: error === null ? null : error.message }
}

export function ownBroker(call: KafkaCall, name: string): boolean {
  return name === String(call.broker.cluster.nodeId)
}

/** What stands more than once: Kafka refuses an item that one request names twice. */
export function repeats<T>(all: readonly T[]): ReadonlySet<T> {
  const seen = new Set<T>()
  const repeated = new Set<T>()
  for (const each of all) {
    if (seen.has(each)) repeated.add(each)
    seen.add(each)
  }
  return repeated
}

/** Partitions that one request may add, as in Kafka: they are one change of the metadata. */
const MAX_NEW_PARTITIONS = 10_000

/** Throws POLICY_VIOLATION. */
export function checkNewPartitions(count: number): void {
  if (count <= MAX_NEW_PARTITIONS) return
  throw new MoonMQError('POLICY_VIOLATION', {
    reason: `${count} new partitions in one request; at most ${MAX_NEW_PARTITIONS} are made at once`,
  })
}

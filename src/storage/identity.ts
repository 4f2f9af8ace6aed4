import { isCode, MoonMQError } from '../core/errors.ts'
import type { Random } from '../core/random.ts'
import { newUuid, type Uuid } from '../core/uuid.ts'
import { readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'

/** Whose data a folder holds. */
export interface FolderIdentity {
  readonly clusterId: Uuid
  readonly nodeId: number
  readonly directoryId: Uuid
}

/** Kafka's name and form, so that its tools recognise the folder: `key=value` lines, comments from `#` (KIP-858). */
export const IDENTITY_NAME = 'meta.properties'
const VERSION = '1'
const MAX_BYTES = 64 * 1024

export function encodeIdentity(identity: FolderIdentity): Buffer {
  const { clusterId, nodeId, directoryId } = identity
  return Buffer.from(`cluster.id=${clusterId}\ndirectory.id=${directoryId}\nnode.id=${nodeId}\nversion=${VERSION}\n`, 'utf8')
}

/** Throws DATA_DAMAGED. Keys that are not known are skipped: Kafka may add some. */
export function decodeIdentity(bytes: Buffer, path: string): FolderIdentity {
  const bad = (reason: string) => new MoonMQError('DATA_DAMAGED', { path, reason })
  const values = new Map<string, string>()
  for (const line of bytes.toString('utf8').split('\n')) {
    const text = line.trim()
    if (text === '' || text.startsWith('#')) continue
    const equals = text.indexOf('=')
    if (equals <= 0) throw bad(`${JSON.stringify(text.slice(0, 60))} is no key=value line`)
    const key = text.slice(0, equals).trim()
    if (values.has(key)) throw bad(`${key} is there twice`)
    values.set(key, text.slice(equals + 1).trim())
  }
  const version = values.get('version')
  if (version !== VERSION) throw bad(`version ${version ?? 'missing'} of the folder's format is not known; ${VERSION} is`)
  const nodeId = values.get('node.id') ?? ''
  if (!/^(0|[1-9]\d{0,9})$/.test(nodeId) || Number(nodeId) > 2 ** 31 - 1) throw bad(`node.id=${nodeId} is no node id`)
  return { clusterId: id('cluster.id'), nodeId: Number(nodeId), directoryId: id('directory.id') }

  function id(key: string): Uuid {
    const value = values.get(key) ?? ''
    if (!/^[A-Za-z0-9_-]{22}$/.test(value)) throw bad(`${key}=${value.slice(0, 60)} is no id of 22 characters`)
    return value
  }
}

export async function readIdentity(disk: Disk, folder: string): Promise<FolderIdentity | null> {
  const path = `${folder}/${IDENTITY_NAME}`
  const bytes = await readSmallFile(disk, path, MAX_BYTES)
  return bytes === null ? null : decodeIdentity(bytes, path)
}

/** Null when the folder has no identity yet or has lost it, about which whoever opens it complains. */
export async function directoryIdOf(disk: Disk, folder: string): Promise<Uuid | null> {
  try {
    return (await readIdentity(disk, folder))?.directoryId ?? null
  } catch (error) {
    if (!isCode(error, 'DATA_DAMAGED')) throw error
    return null
  }
}

/**
 * The identity of a folder, made and written when it has none. Throws DATA_DAMAGED when the folder belongs to another node or
 * cluster than asked for, or is in use (`isUsed`) and has lost its identity: a new one would disown the data. Call it holding the folder's lock.
 */
export async function openIdentity(
  deps: { disk: Disk; random: Random },
  options: { folder: string; nodeId: number; clusterId?: Uuid; isUsed?: boolean },
): Promise<FolderIdentity> {
  const path = `${options.folder}/${IDENTITY_NAME}`
  const found = await readIdentity(deps.disk, options.folder)
  if (found !== null) {
    const other = (what: string, has: string | number, asked: string | number) =>
      new MoonMQError('DATA_DAMAGED', { path, reason: `the folder belongs to ${what} ${has}, this broker is ${asked}` })
    if (found.nodeId !== options.nodeId) throw other('node', found.nodeId, options.nodeId)
    if (options.clusterId !== undefined && found.clusterId !== options.clusterId) throw other('cluster', found.clusterId, options.clusterId)
    return found
  }
  if (options.isUsed === true) {
    const reason = 'it is missing, but the folder holds the metadata of a cluster; put it back as it was, it names the cluster'
    throw new MoonMQError('DATA_DAMAGED', { path, reason })
  }
  const clusterId = options.clusterId ?? newUuid(deps.random)
  const identity = { clusterId, nodeId: options.nodeId, directoryId: newUuid(deps.random) }
  await writeFileAtomically(deps.disk, path, [encodeIdentity(identity)])
  return identity
}

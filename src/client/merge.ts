import type { ClientRecord } from './types.ts'

/**
 * Merges partitions by timestamp; records of one partition keep their order, so an older timestamp behind a newer one of the same
 * partition comes out late. Equal times come out by partition.
 */
export async function* mergeByTimestamp(sources: readonly AsyncIterable<ClientRecord>[]): AsyncGenerator<ClientRecord> {
  const open = sources.map((source) => source[Symbol.asyncIterator]())
  try {
    const heads = (await Promise.all(open.map(async (iterator) => ({ iterator, next: await iterator.next() })))).filter(
      (head) => !head.next.done,
    )
    while (heads.length > 0) {
      let first = 0
      for (let i = 1; i < heads.length; i++) if (earlier(heads[i]?.next.value, heads[first]?.next.value)) first = i
      const head = heads[first]
      if (head === undefined) return
      yield head.next.value as ClientRecord
      head.next = await head.iterator.next()
      if (head.next.done) heads.splice(first, 1)
    }
  } finally {
    await Promise.all(open.map((iterator) => iterator.return?.()))
  }
}

function earlier(a: ClientRecord | undefined, b: ClientRecord | undefined): boolean {
  if (a === undefined || b === undefined) return false
  return a.timestampMs < b.timestampMs || (a.timestampMs === b.timestampMs && a.partition < b.partition)
}

import { existsSync, readFileSync } from 'node:fs'

/** What the worker that is pushed to reads and writes. */
export const JOBS = { topic: 'jobs', done: 'done', group: 'workers', partitions: 3 } as const

/** The same of the worker of version 1, which reads the same topic. */
export const PULLED = { done: 'pulled', group: 'pullers' } as const

/** How far the worker of version 1 is by its own account, by partition. */
export function lowIn(path: string): number[] {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : Array.from({ length: JOBS.partitions }, () => 0)
}

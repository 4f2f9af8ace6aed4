import { parentPort } from 'node:worker_threads'
import { defined } from '../core/assert.ts'
import { asMoonMQError, type ErrorCode, type ErrorDetails } from '../core/errors.ts'
import type { OffloadJob, OffloadResult, RunJob } from '../core/offload.ts'

/** How a job ended, as it travels between threads. */
export interface JobAnswer {
  readonly result: OffloadResult | undefined
  readonly error: { readonly code: ErrorCode; readonly details: ErrorDetails; readonly message: string } | null
}

/** The thread's side of `ThreadOffload`: answers each job, in order. */
export function serveJobs(run: RunJob): void {
  const port = defined(parentPort, 'the port of a thread')
  port.on('message', (job: OffloadJob) => {
    // Owned: it never rejects.
    void answer(run, job).then((given) => port.postMessage(given, transferable(given.result)))
  })
}

async function answer(run: RunJob, job: OffloadJob): Promise<JobAnswer> {
  try {
    const { bytes } = job
    const result = await run({ ...job, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) })
    return { result: ownBytes(result), error: null }
  } catch (error) {
    const { code, details, message } = asMoonMQError(error)
    return { result: undefined, error: { code, details, message } }
  }
}

/** Bytes in memory of their own, so that they can be moved: a view of something larger, such as a codec's heap, is copied. */
function ownBytes(result: OffloadResult): OffloadResult {
  if (result instanceof Uint8Array) return own(result)
  if (result === null || !('records' in result) || result.records === null) return result
  return { ...result, records: own(result.records) }
}

function own(bytes: Buffer): Buffer {
  if (bytes.byteLength === bytes.buffer.byteLength) return bytes
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

/** The memory to move instead of copying it. */
function transferable(result: OffloadResult | undefined): ArrayBuffer[] {
  const bytes = result instanceof Uint8Array ? result : result != null && 'records' in result ? result.records : null
  return bytes === null || bytes.length === 0 ? [] : [bytes.buffer as ArrayBuffer]
}

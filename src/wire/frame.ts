import { MoonMQError } from '../core/errors.ts'
import { ByteReader } from '../core/reader.ts'
import { ByteWriter } from '../core/writer.ts'
import type { Field } from './fields.ts'
import { CORRELATION_BYTES, FRAME_HEADER_BYTES } from './limits.ts'
import { MESSAGES, type Message } from './messages.ts'
import { OPCODES, type OpName } from './opcodes.ts'

/** Pushed records, and errors that no request caused, carry it. */
export const ZERO_CORRELATION: Buffer = Buffer.alloc(CORRELATION_BYTES)

/** A frame as it was cut from the stream. */
export interface Frame {
  readonly opcode: number
  readonly correlation: Buffer
  readonly payload: Buffer
}

/** The fields of a payload. Throws BAD_FRAME. Bytes and keys are views of it. */
export function decodePayload<N extends OpName>(name: N, payload: Buffer): Message<N> {
  const field = MESSAGES[name] as unknown as Field<Message<N>>
  return field.read(new ByteReader(payload), {})
}

/**
 * One frame, ready to send. `sizeHint`: bytes of the payload when it is known to be large. Throws ANSWER_TOO_LARGE for a frame whose
 * length exceeds `maxBytes`.
 */
export function encodeFrame<N extends OpName>(
  name: N,
  correlation: Buffer,
  message: Message<N>,
  sizeHint = 107,
  maxBytes = Number.POSITIVE_INFINITY,
): Buffer {
  const writer = new ByteWriter(4 + FRAME_HEADER_BYTES + sizeHint, 4 + maxBytes)
  writer.uint32(0)
  writer.uint8(OPCODES[name].code)
  writer.bytes(correlation)
  const field = MESSAGES[name] as unknown as Field<Message<N>>
  field.write(writer, message, {})
  writer.patchInt32(0, writer.length - 4)
  return writer.toBuffer()
}

/** Memory for frames that have begun, shared by many connections. */
export interface PartialBudget {
  /** False when there is no room. */
  take(bytes: number): boolean
  give(bytes: number): void
}

const FIRST_PARTIAL_BYTES = 4096

/**
 * Cuts a stream into frames. A frame within one chunk is a view of it; one over several chunks is copied once into memory that
 * grows with what has arrived, never ahead of it: a length alone takes no memory.
 */
export class FrameCutter {
  /** Largest length that is accepted. */
  maxFrameBytes: number
  readonly #budget: PartialBudget | null
  #chunk: Buffer | null = null
  #at = 0
  /** What has arrived of a frame that the last chunk did not complete, its length included. */
  #partial: Buffer | null = null
  #filled = 0

  constructor(maxFrameBytes: number, budget: PartialBudget | null = null) {
    this.maxFrameBytes = maxFrameBytes
    this.#budget = budget
  }

  /** A frame has begun and is not complete; right after `next` returned null. */
  get inFrame(): boolean {
    return this.#filled > 0
  }

  /** Every frame that the chunks so far completed must have been taken. */
  push(chunk: Buffer): void {
    this.#chunk = chunk
    this.#at = 0
  }

  /** The next whole frame, or null. Throws BAD_FRAME, FRAME_TOO_LARGE and, without memory, RATE_LIMITED: the stream is then lost. */
  next(): Frame | null {
    const chunk = this.#chunk
    if (chunk === null) return null
    if (this.#partial === null) {
      const left = chunk.length - this.#at
      if (left >= 4) {
        const total = this.#totalOf(chunk, this.#at)
        if (left >= total) {
          const at = this.#at
          this.#at += total
          return frameOf(chunk, at, total)
        }
      }
    }
    return this.#nextPartial(chunk)
  }

  close(): void {
    this.#dropPartial()
    this.#chunk = null
  }

  #nextPartial(chunk: Buffer): Frame | null {
    while (this.#at < chunk.length) {
      const wanted = this.#filled < 4 || this.#partial === null ? 4 : this.#totalOf(this.#partial, 0)
      const size = Math.min(wanted - this.#filled, chunk.length - this.#at)
      this.#keep(chunk, size, wanted)
      const partial = this.#partial as Buffer | null
      if (partial === null || this.#filled < 4) continue
      const total = this.#totalOf(partial, 0)
      if (this.#filled === total) {
        this.#dropPartial()
        return frameOf(partial, 0, total)
      }
    }
    this.#chunk = null
    return null
  }

  /** Bytes of the frame with its length. */
  #totalOf(bytes: Buffer, at: number): number {
    const length = bytes.readUInt32BE(at)
    if (length > this.maxFrameBytes) {
      throw new MoonMQError('FRAME_TOO_LARGE', { size: length, limit: this.maxFrameBytes, setting: 'server.maxFrameSize' })
    }
    if (length < FRAME_HEADER_BYTES) throw new MoonMQError('BAD_FRAME', { reason: `a frame of ${length} bytes is shorter than its header` })
    return 4 + length
  }

  #keep(chunk: Buffer, size: number, wanted: number): void {
    const needed = this.#filled + size
    const capacity = this.#partial?.length ?? 0
    if (needed > capacity) {
      // Twice what is there, at most what the frame needs.
      const grown = Math.max(needed, Math.min(Math.max(wanted, 4), Math.max(FIRST_PARTIAL_BYTES, capacity * 2)))
      if (this.#budget?.take(grown - capacity) === false) {
        throw new MoonMQError('RATE_LIMITED', { reason: 'too many frames are unfinished; try again' })
      }
      const next = Buffer.allocUnsafe(grown)
      this.#partial?.copy(next, 0, 0, this.#filled)
      this.#partial = next
    }
    chunk.copy(this.#partial as Buffer, this.#filled, this.#at, this.#at + size)
    this.#filled = needed
    this.#at += size
  }

  #dropPartial(): void {
    this.#budget?.give(this.#partial?.length ?? 0)
    this.#partial = null
    this.#filled = 0
  }
}

function frameOf(bytes: Buffer, at: number, total: number): Frame {
  const body = at + 4
  return {
    opcode: bytes[body] as number,
    correlation: bytes.subarray(body + 1, body + FRAME_HEADER_BYTES),
    payload: bytes.subarray(body + FRAME_HEADER_BYTES, at + total),
  }
}

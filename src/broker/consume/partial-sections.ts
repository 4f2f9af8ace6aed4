import type { BatchHeader } from '../../record/batch.ts'

/**
 * Inflated records of batches in whose middle a reader stopped, so that the next read of the rest does not inflate them again: a reader
 * that takes a hundred records at a time from a batch of ten thousand would inflate it a hundred times. Bounded in bytes; the oldest goes.
 */
export class PartialSections {
  readonly #maxBytes: number
  readonly #sections = new Map<string, Buffer>()
  #bytes = 0

  constructor(options: { maxBytes: number }) {
    this.#maxBytes = options.maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Takes the section out: who reads on puts it back when it stops in the middle again. */
  take(topic: string, partition: number, header: BatchHeader): Buffer | undefined {
    if (this.#sections.size === 0) return undefined
    const key = keyOf(topic, partition, header)
    const section = this.#sections.get(key)
    if (section !== undefined) this.#remove(key, section)
    return section
  }

  put(topic: string, partition: number, header: BatchHeader, section: Buffer): void {
    if (section.length > this.#maxBytes) return
    const key = keyOf(topic, partition, header)
    const known = this.#sections.get(key)
    if (known !== undefined) this.#remove(key, known)
    this.#sections.set(key, section)
    this.#bytes += section.length
    for (const [oldest, bytes] of this.#sections) {
      if (this.#bytes <= this.#maxBytes) return
      this.#remove(oldest, bytes)
    }
  }

  #remove(key: string, section: Buffer): void {
    this.#sections.delete(key)
    this.#bytes -= section.length
  }
}

/** The checksum is part of it: another batch at the same place, of a topic that was made again, is another key. */
function keyOf(topic: string, partition: number, header: BatchHeader): string {
  return `${topic}-${partition}@${header.baseOffset}:${header.crc}:${header.sizeBytes}`
}

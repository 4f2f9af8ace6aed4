/** How the dump shows bytes, times and decoded values. */

export type BytesForm = 'text' | 'hex'

export interface CellOptions {
  readonly form: BytesForm
  /** Longer values are cut, with a note. */
  readonly maxValueBytes: number
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** `null`, `"text"` with control characters escaped, or `0x…` for what is no text; cut where it is long. */
export function cell(bytes: Buffer | null, options: CellOptions): string {
  if (bytes === null) return 'null'
  const isCut = bytes.length > options.maxValueBytes
  const shown = isCut ? bytes.subarray(0, options.maxValueBytes) : bytes
  const text = options.form === 'hex' ? null : textOf(shown, isCut)
  const body = text === null ? `0x${shown.toString('hex')}` : quoted(text)
  return isCut ? `${body}… (${bytes.length} bytes, ${shown.length} shown)` : body
}

/** The fields of a value in a JSON line: text where it is text, else base64 or hexadecimal under a name that says so. */
export function jsonCell(name: string, bytes: Buffer | null, options: CellOptions): Record<string, unknown> {
  if (bytes === null) return { [name]: null }
  const isCut = bytes.length > options.maxValueBytes
  const shown = isCut ? bytes.subarray(0, options.maxValueBytes) : bytes
  const cut = isCut ? { [`${name}Bytes`]: bytes.length, [`${name}Cut`]: true } : {}
  if (options.form === 'hex') return { [`${name}Hex`]: shown.toString('hex'), ...cut }
  const text = textOf(shown, isCut)
  return text === null ? { [`${name}Base64`]: shown.toString('base64'), ...cut } : { [name]: text, ...cut }
}

/** A text that was cut may end within a character: up to three bytes of it are left out. */
function textOf(bytes: Buffer, isCut: boolean): string | null {
  for (let less = 0; less <= (isCut ? 3 : 0) && less <= bytes.length; less++) {
    try {
      return strict.decode(bytes.subarray(0, bytes.length - less))
    } catch {
      // No UTF-8, or not up to here.
    }
  }
  return null
}

/** In quotes; nothing in it steers a terminal. */
export function quoted(text: string): string {
  // What JSON leaves as it is.
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

export function timeText(timestampMs: number): string {
  if (timestampMs === -1) return 'none'
  return Math.abs(timestampMs) <= 8.64e15 ? new Date(timestampMs).toISOString() : String(timestampMs)
}

/** Decoded fields as plain JSON: bytes as base64, 64-bit numbers as they are. */
export function plain(value: unknown): unknown {
  if (Buffer.isBuffer(value)) return `base64:${value.toString('base64')}`
  if (typeof value === 'bigint') return value.toString()
  if (Array.isArray(value)) return value.map(plain)
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]))
  }
  return value
}

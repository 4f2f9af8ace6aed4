import { MAX_REQUEST_BYTES } from '../core/limits.ts'

/** Bytes that tell the protocols of the shared port apart (DESIGN D2). */
const SNIFF_BYTES = 5

export type Protocol = 'native' | 'kafka'

/** What the first bytes of a connection say. `more`: not decided yet. */
export type Sniffed =
  | { readonly kind: 'more' }
  | { readonly kind: 'protocol'; readonly protocol: Protocol }
  | { readonly kind: 'tls' }
  | { readonly kind: 'http' }
  | { readonly kind: 'proxy' }
  | { readonly kind: 'length'; readonly length: number }

const MORE: Sniffed = { kind: 'more' }
const TLS: Sniffed = { kind: 'tls' }
const HTTP: Sniffed = { kind: 'http' }
const PROXY: Sniffed = { kind: 'proxy' }
const NATIVE: Sniffed = { kind: 'protocol', protocol: 'native' }
const KAFKA: Sniffed = { kind: 'protocol', protocol: 'kafka' }

/** First byte of a TLS handshake record. */
const TLS_HANDSHAKE = 0x16
/** How version 2 of the PROXY protocol begins; version 1 begins with the word and a blank. */
const PROXY_V2 = 0x0d0a0d0a
const SMALLEST_FRAME = 5

/**
 * Tells the protocol by the first bytes. A length of 100 MiB at most begins with a byte below 0x07, so letters and the marks of
 * TLS and PROXY are no lengths. The fifth byte is 0x00 in every Kafka request, the high byte of a small API key, and an opcode in
 * a native frame. A length out of range is refused as soon as its four bytes are there, before anything is kept for it.
 */
export function sniff(head: Buffer): Sniffed {
  const first = head[0]
  if (first === undefined) return MORE
  if (first === TLS_HANDSHAKE) return TLS
  if (isLetter(first)) {
    if (head.length < SNIFF_BYTES) return MORE
    return head.toString('latin1', 0, 5) === 'PROXY' ? PROXY : HTTP
  }
  if (head.length < 4) return MORE
  const length = head.readUInt32BE(0)
  if (length === PROXY_V2) return PROXY
  if (length < SMALLEST_FRAME || length > MAX_REQUEST_BYTES) return { kind: 'length', length }
  const fifth = head[4]
  if (fifth === undefined) return MORE
  return fifth === 0 ? KAFKA : NATIVE
}

function isLetter(byte: number): boolean {
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x7a
}

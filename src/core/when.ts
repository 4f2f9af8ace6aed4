/** A moment as people write it. */
export type When = { readonly timestampMs: number } | { readonly ageMs: number }

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A time (`2026-01-31T12:00:00Z`, milliseconds since 1970) or an age (`10m`, `2h`, `7d`); null for anything else. */
export function parseWhen(text: string): When | null {
  const [, count, unit] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text) ?? []
  if (count !== undefined && unit !== undefined) return { ageMs: Number(count) * (UNIT_MS[unit] ?? 1) }
  const iso = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN
  const timestampMs = /^\d{9,}$/.test(text) ? Number(text) : iso
  return Number.isSafeInteger(timestampMs) ? { timestampMs } : null
}

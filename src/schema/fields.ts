/** The form of `messages.json` and `records.json`: Kafka's message definitions as data. */

/** Lowest and highest version, both included. */
export type VersionRange = readonly [number, number]

export interface FieldData {
  readonly name: string
  /** A primitive, a struct's name, or `[]` of either. `hash64` is an int64 of which every bit counts: a decimal number as text. */
  readonly type: string
  /** Absent: every version of the message. */
  readonly versions?: VersionRange
  readonly nullable?: true | VersionRange
  /** Not in line but in the tag section, where `tagVersions` (absent: `versions`) says so. */
  readonly tag?: number
  readonly tagVersions?: VersionRange
  /** Absent: 0, false, "", empty, zero uuid. 64-bit values beyond 2^53 are strings. */
  readonly default?: number | string | boolean | null
  /** Keeps the old encoding in a flexible message. */
  readonly flexible?: false
  /** A writer may drop it silently in a version that lacks it. */
  readonly ignorable?: true
  readonly fields?: readonly FieldData[]
}

export interface BodyData {
  readonly flexibleFrom: number | null
  readonly fields: readonly FieldData[]
}

export interface ApiData {
  readonly key: number
  readonly name: string
  readonly removed?: true
  readonly versions: VersionRange
  readonly responseVersions?: VersionRange
  readonly latestVersionUnstable?: true
  readonly listeners: readonly string[]
  readonly requestHeader: { readonly flexibleFrom: number | null }
  readonly responseHeader: { readonly flexibleFrom: number | null }
  readonly request: BodyData
  readonly response: BodyData
}

export interface RecordData extends BodyData {
  readonly kind: string
  readonly id?: number
  readonly versions: VersionRange
}

export function within(range: VersionRange | undefined, version: number): boolean {
  return range === undefined || (version >= range[0] && version <= range[1])
}

export function isFlexible(flexibleFrom: number | null, version: number): boolean {
  return flexibleFrom !== null && version >= flexibleFrom
}

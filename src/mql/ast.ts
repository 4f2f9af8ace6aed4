/** Statements as data. Partition numbers start at 0. */
import type { Place } from './errors.ts'

export type Statement =
  | {
      readonly kind: 'connect'
      readonly host: string | null
      readonly port: number | null
      readonly user: string | null
      readonly password: string | null
    }
  | { readonly kind: 'disconnect' }
  | {
      readonly kind: 'create-topic'
      readonly name: string
      readonly partitions: number
      readonly config: Readonly<Record<string, string>>
    }
  | { readonly kind: 'join'; readonly group: string; readonly topics: readonly string[] }
  | { readonly kind: 'list-topics' }
  | { readonly kind: 'list-groups' }
  | { readonly kind: 'membership' }
  | { readonly kind: 'describe-topic'; readonly name: string }
  | { readonly kind: 'describe-group'; readonly group: string }
  | {
      readonly kind: 'alter-topic'
      readonly name: string
      readonly set: Readonly<Record<string, string>>
      readonly unset: readonly string[]
    }
  | { readonly kind: 'grow-topic'; readonly name: string; readonly partitions: number }
  | { readonly kind: 'drop-topic'; readonly name: string }
  | { readonly kind: 'drop-group'; readonly group: string }
  | { readonly kind: 'show-offsets'; readonly topic: string; readonly group: string | null }
  | {
      readonly kind: 'produce'
      readonly topic: string
      readonly key: string | null
      readonly value: string
      readonly headers: readonly { readonly key: string; readonly value: string }[]
      readonly partition: number | null
    }
  | { readonly kind: 'fetch'; readonly topic: string; readonly group: string; readonly limit: number }
  | {
      readonly kind: 'subscribe'
      readonly topic: string
      readonly group: string
      readonly timeoutSeconds: number
      readonly limit: number | null
    }
  | { readonly kind: 'commit'; readonly topic: string; readonly partition: number; readonly offset: number }
  | {
      readonly kind: 'nack'
      readonly topic: string
      readonly partition: number
      readonly offset: number
      readonly reason: string
    }
  | { readonly kind: 'leave' }
  | { readonly kind: 'heartbeat' }
  | { readonly kind: 'begin'; readonly name: string | null }
  | { readonly kind: 'end'; readonly commit: boolean }
  | Select
  | { readonly kind: 'help'; readonly topic: string | null }
  | { readonly kind: 'quit' }

export interface Select {
  readonly kind: 'select'
  /** Empty with `count`. */
  readonly columns: readonly Column[]
  readonly count: boolean
  readonly topic: string
  /** Null: all. */
  readonly partitions: readonly number[] | null
  readonly where: Condition | null
  readonly from: Bound | null
  /** Records below it are shown. */
  readonly to: Bound | null
  readonly limit: number | null
}

export type Bound =
  | { readonly kind: 'earliest' }
  | { readonly kind: 'latest' }
  | { readonly kind: 'offset'; readonly offset: number }
  | { readonly kind: 'time'; readonly timestampMs: number }
  /** So long before now. */
  | { readonly kind: 'age'; readonly ageMs: number }

/** One column of a record, and where in its JSON. */
export interface Column {
  readonly source: 'partition' | 'offset' | 'timestamp' | 'size' | 'key' | 'value' | 'headers' | 'header'
  /** Of `header`. */
  readonly name: string
  readonly path: readonly (string | number)[]
  /** As it was written: the title of the column. */
  readonly title: string
}

export type Literal = string | number | boolean | null

export type Comparison = '=' | '<>' | '<' | '<=' | '>' | '>='

export type Condition =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Condition[] }
  | { readonly kind: 'not'; readonly part: Condition }
  | { readonly kind: 'compare'; readonly column: Column; readonly op: Comparison; readonly value: Literal }
  | { readonly kind: 'in'; readonly column: Column; readonly values: readonly Literal[] }
  | { readonly kind: 'null'; readonly column: Column }
  | { readonly kind: 'contains'; readonly column: Column; readonly text: string }
  | { readonly kind: 'like'; readonly column: Column; readonly pattern: string }

/** A statement and where it begins. */
export interface Parsed {
  readonly statement: Statement
  readonly place: Place
}

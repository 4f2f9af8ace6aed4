import { readFileSync } from 'node:fs'
import type { OpName } from '../../src/wire/opcodes.ts'
import { inRoot } from './root.ts'

type Fields = Readonly<Record<string, unknown>>

export interface Vector {
  readonly id: number
  readonly name: string
  readonly direction: 'client-to-server' | 'server-to-client'
  readonly op: OpName
  readonly opcode: number
  readonly correlationIdHex: string
  readonly fields: Fields
  readonly payloadHex: string
  readonly frameHex: string
}

export interface Malformed {
  readonly name: string
  readonly frameHex: string
  readonly state: 'any' | 'new' | 'greeted' | 'authenticated'
  readonly expectErrorCode: number
  readonly connectionCloses: boolean
}

export interface NativeVectors {
  readonly opcodes: Readonly<Record<string, number>>
  readonly vectors: readonly Vector[]
  readonly malformed: readonly Malformed[]
  readonly auxiliary: {
    readonly dlqEnvelope: readonly { readonly fields: Readonly<Record<string, string | number>>; readonly valueHex: string }[]
    readonly keyPartitioner: { readonly samples: readonly { key: string; hash: number; partitions: number; partition: number }[] }
  }
}

export function nativeVectors(): NativeVectors {
  return JSON.parse(readFileSync(inRoot('test/fixtures/native-vectors.json'), 'utf8')) as NativeVectors
}

const NUMBERS = new Set(['offset', 'timestamp', 'pid', 'earliest', 'latest', 'highWatermark', 'lso'])
const BYTES = new Set(['key', 'value', 'password'])

/** The fields of a vector as the codec has them: numbers, buffers, maps, partitions from 0. */
export function messageOf(vector: Vector): Record<string, unknown> {
  const message = convert(vector.fields, vector.op)
  // The empty text of these stands for a field that is absent.
  if (vector.payloadHex === '') return {}
  return message
}

function convert(fields: Fields, op: string): Record<string, unknown> {
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (name.endsWith('Hex')) out[name.slice(0, -3)] = Buffer.from(String(value), 'hex')
    else if (name === 'timestamp' && op.startsWith('RECORD')) out['timestampMs'] = number(String(value))
    else if (NUMBERS.has(name)) out[name] = number(String(value))
    else if (BYTES.has(name)) out[name] = Buffer.from(String(value))
    else if (name === 'partition') out[name] = Number(value) - 1
    else if (name === 'config') out[name] = new Map(Object.entries(value as Record<string, string>))
    else if (name === 'assignment') {
      out[name] = Object.entries(value as Record<string, number[]>).map(([topic, partitions]) => ({
        topic,
        partitions: partitions.map((partition) => partition - 1),
      }))
    } else if (Array.isArray(value)) out[name] = value.map((each) => (typeof each === 'object' ? convert(each as Fields, op) : each))
    else out[name] = value
  }
  return out
}

function number(text: string): number | bigint {
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : BigInt(text)
}

// Makes src/schema/data.generated.ts and src/schema/types.generated.ts from src/schema/*.json.
// Run: node dist/scripts/kafka-types.js
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { ApiData, FieldData, RecordData } from '../src/schema/fields.ts'

interface MessagesFile {
  readonly apis: Readonly<Record<string, ApiData>>
  readonly other: Readonly<Record<string, RecordData>>
}

interface RecordsGroup {
  readonly topic: string
  readonly records: Readonly<Record<string, RecordData>>
}

type RecordsFile = Readonly<Record<string, RecordsGroup | string>>
type ErrorsFile = Readonly<Record<string, { readonly name: string; readonly retriable: boolean }>>

export interface SchemaFiles {
  readonly messages: MessagesFile
  readonly records: RecordsFile
  readonly errors: ErrorsFile
}

const HEAD = '// Made by scripts/kafka-types.ts from src/schema/*.json. Do not edit.\n'

function quoted(value: unknown): string {
  return `'${JSON.stringify(value).replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

function liveApis(files: SchemaFiles): ApiData[] {
  return Object.values(files.messages.apis).filter((api) => !api.removed)
}

function recordGroups(files: SchemaFiles): [string, RecordsGroup][] {
  return Object.entries(files.records).filter((entry): entry is [string, RecordsGroup] => typeof entry[1] !== 'string')
}

/** The definitions as text, so that each is parsed when it is first used and a start pays for none of them. */
export function generateData(files: SchemaFiles): string {
  const apis = liveApis(files)
  const lines = [HEAD, 'export const API_KEYS = {']
  for (const api of apis) lines.push(`  ${api.name}: ${api.key},`)
  lines.push('} as const', '', '/** ApiData as JSON, by API key. */', 'export const API_DATA: Readonly<Record<number, string>> = {')
  for (const api of apis) lines.push(`  ${api.key}: ${quoted(api)},`)
  lines.push('}', '', '/** RecordData as JSON, by name. */', 'export const DATA: Readonly<Record<string, string>> = {')
  for (const [name, data] of Object.entries(files.messages.other)) lines.push(`  ${name}: ${quoted(data)},`)
  for (const [group, { records }] of recordGroups(files)) {
    if (group === 'storage' || group === 'raft')
      for (const [name, data] of Object.entries(records)) lines.push(`  ${name}: ${quoted(data)},`)
  }
  lines.push('}', '', '/** RecordData as JSON, by the place where the records live and their name. */')
  lines.push('export const RECORD_DATA: Readonly<Record<string, Readonly<Record<string, string>>>> = {')
  for (const [group, { records }] of recordGroups(files)) {
    if (group === 'storage' || group === 'raft') continue
    lines.push(`  '${group}': {`)
    for (const [name, data] of Object.entries(records)) lines.push(`    ${name}: ${quoted(data)},`)
    lines.push('  },')
  }
  lines.push('}', '', "/** Kafka's error codes: name and whether a client tries again by itself. */")
  lines.push('export const KAFKA_ERRORS: Readonly<Record<number, { readonly name: string; readonly retriable: boolean }>> = {')
  for (const [code, { name, retriable }] of Object.entries(files.errors)) {
    const key = Number(code) < 0 ? `[${code}]` : code
    lines.push(`  ${key}: { name: '${name}', retriable: ${retriable} },`)
  }
  lines.push('}', '')
  return lines.join('\n')
}

const PRIMITIVES: Readonly<Record<string, string>> = {
  bool: 'boolean',
  int8: 'number',
  int16: 'number',
  int32: 'number',
  int64: 'number',
  hash64: 'string',
  uint16: 'number',
  uint32: 'number',
  float64: 'number',
  uuid: 'Uuid',
  string: 'string',
  bytes: 'Buffer',
  records: 'Buffer',
}

function upperFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The interface of a struct and of the structs inside it, outermost last. */
function structTypes(name: string, message: string, fields: readonly FieldData[], out: string[]): void {
  const lines: string[] = []
  for (const field of fields) {
    const element = field.type.replace('[]', '')
    let type = PRIMITIVES[element]
    if (type === undefined) {
      type = `${message}${upperFirst(element)}`
      structTypes(type, message, field.fields ?? [], out)
    }
    if (field.type.startsWith('[]')) type = `readonly ${type}[]`
    const nullable = field.nullable !== undefined || field.default === null
    lines.push(`  readonly ${field.name}: ${type}${nullable ? ' | null' : ''}`)
  }
  const text = `export interface ${name} {\n${lines.join('\n')}${lines.length > 0 ? '\n' : ''}}\n`
  if (!out.includes(text)) out.push(text)
}

export function generateTypes(files: SchemaFiles): string {
  const out: string[] = []
  const apis = liveApis(files)
  for (const api of apis) {
    structTypes(`${api.name}Request`, `${api.name}Request`, api.request.fields, out)
    structTypes(`${api.name}Response`, `${api.name}Response`, api.response.fields, out)
  }
  const table = (name: string, rows: string[]) =>
    out.push(`export interface ${name} {\n${rows.map((row) => `  readonly ${row}\n`).join('')}}\n`)
  table(
    'Requests',
    apis.map((api) => `${api.name}: ${api.name}Request`),
  )
  table(
    'Responses',
    apis.map((api) => `${api.name}: ${api.name}Response`),
  )
  const dataRows: string[] = []
  for (const [name, data] of Object.entries(files.messages.other)) {
    structTypes(name, name, data.fields, out)
    dataRows.push(`${name}: ${name}`)
  }
  for (const [group, { records }] of recordGroups(files)) {
    const rows: string[] = []
    for (const [name, data] of Object.entries(records)) {
      structTypes(name, name, data.fields, out)
      const row = `${name}: ${name}`
      if (group === 'storage' || group === 'raft') dataRows.push(row)
      else rows.push(row)
    }
    if (rows.length > 0) table(`${group.split('-').map(upperFirst).join('')}Records`, rows)
  }
  table('DataTypes', dataRows)
  return `${HEAD}import type { Uuid } from '../core/uuid.ts'\n\n${out.join('\n')}`
}

export function readSchemaFiles(folder: string): SchemaFiles {
  const read = (name: string): unknown => JSON.parse(readFileSync(`${folder}/${name}`, 'utf8'))
  return {
    messages: read('messages.json') as MessagesFile,
    records: read('records.json') as RecordsFile,
    errors: read('errors.json') as ErrorsFile,
  }
}

const main = process.argv[1]
if (main !== undefined && fileURLToPath(import.meta.url) === main) {
  const folder = 'src/schema'
  const files = readSchemaFiles(folder)
  writeFileSync(`${folder}/data.generated.ts`, generateData(files))
  writeFileSync(`${folder}/types.generated.ts`, generateTypes(files))
}

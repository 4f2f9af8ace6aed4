import { MoonMQError } from '../core/errors.ts'
import { type Codec, compileBody } from './compile.ts'
import { API_DATA, API_KEYS, DATA } from './data.generated.ts'
import { type ApiData, isFlexible, type RecordData, type VersionRange, within } from './fields.ts'
import type { DataTypes, Requests, Responses } from './types.generated.ts'

/** Codecs of Kafka's requests, responses and the bare structures beside them. Each is built when it is first asked for. */

export type ApiName = keyof typeof API_KEYS

export interface ApiInfo {
  readonly key: number
  readonly name: ApiName
  /** Request versions that the definitions know; what a broker offers is the door's choice. */
  readonly versions: VersionRange
  /** The highest version is not offered by a released broker. */
  readonly latestVersionUnstable: boolean
  readonly forBrokers: boolean
}

const apis = new Map<number, ApiData | null>()
const data = new Map<string, RecordData>()
const codecs = new Map<string, Codec<unknown>>()

/** The definition of an API, or undefined when the key is not known. */
export function apiData(key: number): ApiData | undefined {
  let api = apis.get(key)
  if (api === undefined) {
    const text = API_DATA[key]
    if (text === undefined) return undefined
    api = JSON.parse(text) as ApiData
    apis.set(key, api)
  }
  return api ?? undefined
}

export function apiInfo(key: number): ApiInfo | undefined {
  const api = apiData(key)
  if (api === undefined) return undefined
  return {
    key: api.key,
    name: api.name as ApiName,
    versions: api.versions,
    latestVersionUnstable: api.latestVersionUnstable === true,
    forBrokers: api.listeners.includes('broker'),
  }
}

/** Every API, by rising key. Reads all definitions. */
export function allApis(): readonly ApiInfo[] {
  return Object.values(API_KEYS)
    .map((key) => apiInfo(key))
    .filter((api) => api !== undefined)
}

/** A known API by its key; throws UNSUPPORTED_VERSION for a key or version that the definitions do not know. */
function known(key: number, version: number, response: boolean): ApiData {
  const api = apiData(key)
  if (api === undefined) throw new MoonMQError('UNSUPPORTED_VERSION', { version, api: `key ${key}`, supported: 'none' })
  const versions = (response ? api.responseVersions : undefined) ?? api.versions
  if (!within(versions, version)) {
    throw new MoonMQError('UNSUPPORTED_VERSION', { version, api: api.name, supported: `${versions[0]}-${versions[1]}` })
  }
  return api
}

function cached<T>(id: string, make: () => Codec<T>): Codec<T> {
  let codec = codecs.get(id)
  if (codec === undefined) {
    codec = make() as Codec<unknown>
    codecs.set(id, codec)
  }
  return codec as Codec<T>
}

/** The body of a request. Throws UNSUPPORTED_VERSION. */
export function requestCodec<N extends ApiName>(name: N, version: number): Codec<Requests[N]> {
  return cached(`q${name} ${version}`, () => {
    const api = known(API_KEYS[name], version, false)
    return compileBody<Requests[N]>(`${name}Request`, api.request, version)
  })
}

/** The body of a response. Throws UNSUPPORTED_VERSION. */
export function responseCodec<N extends ApiName>(name: N, version: number): Codec<Responses[N]> {
  return cached(`p${name} ${version}`, () => {
    const api = known(API_KEYS[name], version, true)
    return compileBody<Responses[N]>(`${name}Response`, api.response, version)
  })
}

export type DataName = keyof DataTypes

/**
 * A structure that stands in no request: an embedded blob of the consumer protocol, a control record's value, a line of a file.
 * Throws UNSUPPORTED_VERSION.
 */
export function dataCodec<N extends DataName>(name: N, version: number): Codec<DataTypes[N]> {
  return cached(`d${name} ${version}`, () => {
    const definition = dataDefinition(name)
    if (!within(definition.versions, version)) {
      throw new MoonMQError('UNSUPPORTED_VERSION', { version, api: name, supported: definition.versions.join('-') })
    }
    return compileBody<DataTypes[N]>(name, definition, version)
  })
}

function dataDefinition(name: DataName): RecordData {
  let definition = data.get(name)
  if (definition === undefined) {
    definition = JSON.parse(DATA[name] as string) as RecordData
    data.set(name, definition)
  }
  return definition
}

/** Whether the header of this request or response has a tag section. False for a key that is not known. */
export function hasFlexibleHeader(key: number, version: number, direction: 'request' | 'response'): boolean {
  const api = apiData(key)
  if (api === undefined) return false
  return isFlexible((direction === 'request' ? api.requestHeader : api.responseHeader).flexibleFrom, version)
}

/** APIs of Kafka that clients know and this door does not serve, with the reason. A request for one of them closes the connection. */
export interface SkippedApi {
  readonly key: number
  readonly name: string
  readonly reason: string
}

const LOGIN = 'login and access rules are not in this version'
const TOKENS = 'delegation tokens are not planned'
const CLUSTER = 'there is one broker in this version'
const STREAMS = 'Streams works on the classic group protocol'
const TELEMETRY = 'client telemetry is not collected; clients run without it'
const INTERNAL = 'brokers and controllers use it among themselves'

function skipped(reason: string, apis: Readonly<Record<number, string>>): SkippedApi[] {
  return Object.entries(apis).map(([key, name]) => ({ key: Number(key), name, reason }))
}

export const SKIPPED_APIS: readonly SkippedApi[] = [
  ...skipped(LOGIN, { 17: 'SaslHandshake', 29: 'DescribeAcls', 30: 'CreateAcls', 31: 'DeleteAcls', 36: 'SaslAuthenticate' }),
  ...skipped(LOGIN, { 48: 'DescribeClientQuotas', 49: 'AlterClientQuotas' }),
  ...skipped(LOGIN, { 50: 'DescribeUserScramCredentials', 51: 'AlterUserScramCredentials' }),
  ...skipped(TOKENS, { 38: 'CreateDelegationToken', 39: 'RenewDelegationToken' }),
  ...skipped(TOKENS, { 40: 'ExpireDelegationToken', 41: 'DescribeDelegationToken' }),
  ...skipped(CLUSTER, { 64: 'UnregisterBroker', 80: 'AddRaftVoter', 81: 'RemoveRaftVoter', 94: 'UnregisterController' }),
  ...skipped(TELEMETRY, { 71: 'GetTelemetrySubscriptions', 72: 'PushTelemetry' }),
  ...skipped(STREAMS, { 88: 'StreamsGroupHeartbeat', 89: 'StreamsGroupDescribe', 93: 'StreamsGroupTopologyDescriptionUpdate' }),
  ...skipped(INTERNAL, { 83: 'InitializeShareGroupState', 84: 'ReadShareGroupState' }),
  ...skipped(INTERNAL, { 85: 'WriteShareGroupState', 86: 'DeleteShareGroupState', 87: 'ReadShareGroupStateSummary' }),
].sort((left, right) => left.key - right.key)

/** How a log line names an API that is not served. */
export function describeSkipped(key: number): string {
  const found = SKIPPED_APIS.find((each) => each.key === key)
  return found === undefined ? String(key) : `${key} (${found.name}: ${found.reason})`
}

import { NO_FAILPOINT } from '../core/failpoint.ts'
import { SHARE_STATE_CONFIG, SHARE_STATE_TOPIC } from '../metadata/config-plans.ts'
import type { BrokerDeps } from './broker-deps.ts'
import { featureLevel } from './features.ts'
import { groupOptions } from './groups/group-options.ts'
import { GroupCoordinator } from './groups/group-shell.ts'
import { CONSUMER_OFFSETS, InternalTopic, TRANSACTION_STATE } from './internal-topics.ts'
import type { ProducerPort, TopicPort } from './ports.ts'
import type { BrokerSettings, GroupSettings } from './settings.ts'
import { shareKind } from './share/open-share.ts'
import type { ShareKind } from './share/share-groups.ts'
import type { Partitions } from './topics/partitions.ts'
import { TransactionCoordinator } from './txn/coordinator.ts'
import { type NameExpiry, txnOptions } from './txn/txn-options.ts'

/** Internal topics whose folders are made at the first append to each partition. */
export const LAZY_TOPICS: ReadonlySet<string> = new Set([CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_STATE_TOPIC])

interface CoordinatorDeps extends BrokerDeps {
  readonly partitions: Partitions
  readonly topics: TopicPort
  readonly producers: ProducerPort
  readonly groupSettings: GroupSettings
}

/** Whatever keeps its state in an internal topic. */
export interface Coordinators {
  readonly groups: GroupCoordinator
  readonly transactions: TransactionCoordinator
  readonly shareKind: ShareKind
  readonly shareTopic: InternalTopic
}

interface CoordinatorOptions {
  readonly nodeId: number
  readonly settings: BrokerSettings
  readonly names: NameExpiry
}

export function openCoordinators(deps: CoordinatorDeps, options: CoordinatorOptions): Coordinators {
  const { metadata, partitions, groupSettings } = deps
  const { nodeId, settings, names } = options
  const topic = (name: string, prefix: string, config: Iterable<readonly [string, string]>) =>
    new InternalTopic(deps, {
      name,
      partitions: settings.number(`${prefix}.num.partitions`),
      config: new Map([...config, ['segment.bytes', settings.text(`${prefix}.segment.bytes`)]]),
    })
  const compacted = [['cleanup.policy', 'compact']] as const
  const kind = shareKind(metadata, groupSettings, settings)
  const groups = GroupCoordinator.open(
    {
      ...deps,
      offsetsTopic: topic(CONSUMER_OFFSETS, 'offsets.topic', compacted),
      highWatermark: (name, partition) => partitions.topic(name)?.partitions[partition]?.log?.highWatermark,
      kinds: [kind],
    },
    groupOptions(nodeId, settings),
  )
  const transactions = new TransactionCoordinator(
    {
      ...deps,
      failpoint: deps.failpoint ?? NO_FAILPOINT,
      stateTopic: topic(TRANSACTION_STATE, 'transaction.state.log', compacted),
      commits: groups,
      level: () => featureLevel(metadata.image, 'transaction.version'),
    },
    txnOptions(nodeId, settings, names),
  )
  const shareTopic = topic(SHARE_STATE_TOPIC, 'share.coordinator.state.topic', SHARE_STATE_CONFIG)
  return { groups, transactions, shareKind: kind, shareTopic }
}

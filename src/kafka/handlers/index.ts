import type { AnyApi } from '../handler.ts'
import { produce } from './00-produce.ts'
import { fetch } from './01-fetch.ts'
import { listOffsets } from './02-list-offsets.ts'
import { metadata } from './03-metadata.ts'
import { apiVersions } from './18-api-versions.ts'
import { createTopics } from './19-create-topics.ts'
import { deleteTopics } from './20-delete-topics.ts'
import { initProducerId } from './22-init-producer-id.ts'
import { offsetForLeaderEpoch } from './23-offset-for-leader-epoch.ts'
import { describeConfigs } from './32-describe-configs.ts'
import { createPartitions } from './37-create-partitions.ts'
import { describeCluster } from './60-describe-cluster.ts'
import { describeTopicPartitions } from './75-describe-topic-partitions.ts'

/** Every API that is served, by key. */
export const KAFKA_APIS: readonly AnyApi[] = [
  produce,
  fetch,
  listOffsets,
  metadata,
  apiVersions,
  createTopics,
  deleteTopics,
  initProducerId,
  offsetForLeaderEpoch,
  describeConfigs,
  createPartitions,
  describeCluster,
  describeTopicPartitions,
]

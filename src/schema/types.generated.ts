// Made by scripts/kafka-types.ts from src/schema/*.json. Do not edit.
import type { Uuid } from '../core/uuid.ts'

export interface ProduceRequestPartitionProduceData {
  readonly index: number
  readonly records: Buffer | null
}

export interface ProduceRequestTopicProduceData {
  readonly name: string
  readonly topicId: Uuid
  readonly partitionData: readonly ProduceRequestPartitionProduceData[]
}

export interface ProduceRequest {
  readonly transactionalId: string | null
  readonly acks: number
  readonly timeoutMs: number
  readonly topicData: readonly ProduceRequestTopicProduceData[]
}

export interface ProduceResponseBatchIndexAndErrorMessage {
  readonly batchIndex: number
  readonly batchIndexErrorMessage: string | null
}

export interface ProduceResponseLeaderIdAndEpoch {
  readonly leaderId: number
  readonly leaderEpoch: number
}

export interface ProduceResponsePartitionProduceResponse {
  readonly index: number
  readonly errorCode: number
  readonly baseOffset: number
  readonly logAppendTimeMs: number
  readonly logStartOffset: number
  readonly recordErrors: readonly ProduceResponseBatchIndexAndErrorMessage[]
  readonly errorMessage: string | null
  readonly currentLeader: ProduceResponseLeaderIdAndEpoch
}

export interface ProduceResponseTopicProduceResponse {
  readonly name: string
  readonly topicId: Uuid
  readonly partitionResponses: readonly ProduceResponsePartitionProduceResponse[]
}

export interface ProduceResponseNodeEndpoint {
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
}

export interface ProduceResponse {
  readonly responses: readonly ProduceResponseTopicProduceResponse[]
  readonly throttleTimeMs: number
  readonly nodeEndpoints: readonly ProduceResponseNodeEndpoint[]
}

export interface FetchRequestReplicaState {
  readonly replicaId: number
  readonly replicaEpoch: number
}

export interface FetchRequestFetchPartition {
  readonly partition: number
  readonly currentLeaderEpoch: number
  readonly fetchOffset: number
  readonly lastFetchedEpoch: number
  readonly logStartOffset: number
  readonly partitionMaxBytes: number
  readonly replicaDirectoryId: Uuid
  readonly highWatermark: number
}

export interface FetchRequestFetchTopic {
  readonly topic: string
  readonly topicId: Uuid
  readonly partitions: readonly FetchRequestFetchPartition[]
}

export interface FetchRequestForgottenTopic {
  readonly topic: string
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface FetchRequest {
  readonly clusterId: string | null
  readonly replicaId: number
  readonly replicaState: FetchRequestReplicaState
  readonly maxWaitMs: number
  readonly minBytes: number
  readonly maxBytes: number
  readonly isolationLevel: number
  readonly sessionId: number
  readonly sessionEpoch: number
  readonly topics: readonly FetchRequestFetchTopic[]
  readonly forgottenTopicsData: readonly FetchRequestForgottenTopic[]
  readonly rackId: string
}

export interface FetchResponseEpochEndOffset {
  readonly epoch: number
  readonly endOffset: number
}

export interface FetchResponseLeaderIdAndEpoch {
  readonly leaderId: number
  readonly leaderEpoch: number
}

export interface FetchResponseSnapshotId {
  readonly endOffset: number
  readonly epoch: number
}

export interface FetchResponseAbortedTransaction {
  readonly producerId: number
  readonly firstOffset: number
}

export interface FetchResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly highWatermark: number
  readonly lastStableOffset: number
  readonly logStartOffset: number
  readonly divergingEpoch: FetchResponseEpochEndOffset
  readonly currentLeader: FetchResponseLeaderIdAndEpoch
  readonly snapshotId: FetchResponseSnapshotId
  readonly abortedTransactions: readonly FetchResponseAbortedTransaction[] | null
  readonly preferredReadReplica: number
  readonly records: Buffer | null
}

export interface FetchResponseFetchableTopicResponse {
  readonly topic: string
  readonly topicId: Uuid
  readonly partitions: readonly FetchResponsePartitionData[]
}

export interface FetchResponseNodeEndpoint {
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
}

export interface FetchResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly sessionId: number
  readonly responses: readonly FetchResponseFetchableTopicResponse[]
  readonly nodeEndpoints: readonly FetchResponseNodeEndpoint[]
}

export interface ListOffsetsRequestListOffsetsPartition {
  readonly partitionIndex: number
  readonly currentLeaderEpoch: number
  readonly timestamp: number
}

export interface ListOffsetsRequestListOffsetsTopic {
  readonly name: string
  readonly partitions: readonly ListOffsetsRequestListOffsetsPartition[]
}

export interface ListOffsetsRequest {
  readonly replicaId: number
  readonly isolationLevel: number
  readonly topics: readonly ListOffsetsRequestListOffsetsTopic[]
  readonly timeoutMs: number
}

export interface ListOffsetsResponseListOffsetsPartitionResponse {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly timestamp: number
  readonly offset: number
  readonly leaderEpoch: number
}

export interface ListOffsetsResponseListOffsetsTopicResponse {
  readonly name: string
  readonly partitions: readonly ListOffsetsResponseListOffsetsPartitionResponse[]
}

export interface ListOffsetsResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly ListOffsetsResponseListOffsetsTopicResponse[]
}

export interface MetadataRequestMetadataRequestTopic {
  readonly topicId: Uuid
  readonly name: string | null
}

export interface MetadataRequest {
  readonly topics: readonly MetadataRequestMetadataRequestTopic[] | null
  readonly allowAutoTopicCreation: boolean
  readonly includeClusterAuthorizedOperations: boolean
  readonly includeTopicAuthorizedOperations: boolean
}

export interface MetadataResponseMetadataResponseBroker {
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
}

export interface MetadataResponseMetadataResponsePartition {
  readonly errorCode: number
  readonly partitionIndex: number
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly replicaNodes: readonly number[]
  readonly isrNodes: readonly number[]
  readonly offlineReplicas: readonly number[]
}

export interface MetadataResponseMetadataResponseTopic {
  readonly errorCode: number
  readonly name: string | null
  readonly topicId: Uuid
  readonly isInternal: boolean
  readonly partitions: readonly MetadataResponseMetadataResponsePartition[]
  readonly topicAuthorizedOperations: number
}

export interface MetadataResponse {
  readonly throttleTimeMs: number
  readonly brokers: readonly MetadataResponseMetadataResponseBroker[]
  readonly clusterId: string | null
  readonly controllerId: number
  readonly topics: readonly MetadataResponseMetadataResponseTopic[]
  readonly clusterAuthorizedOperations: number
  readonly errorCode: number
}

export interface OffsetCommitRequestOffsetCommitRequestPartition {
  readonly partitionIndex: number
  readonly committedOffset: number
  readonly committedLeaderEpoch: number
  readonly committedMetadata: string | null
}

export interface OffsetCommitRequestOffsetCommitRequestTopic {
  readonly name: string
  readonly topicId: Uuid
  readonly partitions: readonly OffsetCommitRequestOffsetCommitRequestPartition[]
}

export interface OffsetCommitRequest {
  readonly groupId: string
  readonly generationIdOrMemberEpoch: number
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly retentionTimeMs: number
  readonly topics: readonly OffsetCommitRequestOffsetCommitRequestTopic[]
}

export interface OffsetCommitResponseOffsetCommitResponsePartition {
  readonly partitionIndex: number
  readonly errorCode: number
}

export interface OffsetCommitResponseOffsetCommitResponseTopic {
  readonly name: string
  readonly topicId: Uuid
  readonly partitions: readonly OffsetCommitResponseOffsetCommitResponsePartition[]
}

export interface OffsetCommitResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly OffsetCommitResponseOffsetCommitResponseTopic[]
}

export interface OffsetFetchRequestOffsetFetchRequestTopic {
  readonly name: string
  readonly partitionIndexes: readonly number[]
}

export interface OffsetFetchRequestOffsetFetchRequestTopics {
  readonly name: string
  readonly topicId: Uuid
  readonly partitionIndexes: readonly number[]
}

export interface OffsetFetchRequestOffsetFetchRequestGroup {
  readonly groupId: string
  readonly memberId: string | null
  readonly memberEpoch: number
  readonly topics: readonly OffsetFetchRequestOffsetFetchRequestTopics[] | null
}

export interface OffsetFetchRequest {
  readonly groupId: string
  readonly topics: readonly OffsetFetchRequestOffsetFetchRequestTopic[] | null
  readonly groups: readonly OffsetFetchRequestOffsetFetchRequestGroup[]
  readonly requireStable: boolean
}

export interface OffsetFetchResponseOffsetFetchResponsePartition {
  readonly partitionIndex: number
  readonly committedOffset: number
  readonly committedLeaderEpoch: number
  readonly metadata: string | null
  readonly errorCode: number
}

export interface OffsetFetchResponseOffsetFetchResponseTopic {
  readonly name: string
  readonly partitions: readonly OffsetFetchResponseOffsetFetchResponsePartition[]
}

export interface OffsetFetchResponseOffsetFetchResponsePartitions {
  readonly partitionIndex: number
  readonly committedOffset: number
  readonly committedLeaderEpoch: number
  readonly metadata: string | null
  readonly errorCode: number
}

export interface OffsetFetchResponseOffsetFetchResponseTopics {
  readonly name: string
  readonly topicId: Uuid
  readonly partitions: readonly OffsetFetchResponseOffsetFetchResponsePartitions[]
}

export interface OffsetFetchResponseOffsetFetchResponseGroup {
  readonly groupId: string
  readonly topics: readonly OffsetFetchResponseOffsetFetchResponseTopics[]
  readonly errorCode: number
}

export interface OffsetFetchResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly OffsetFetchResponseOffsetFetchResponseTopic[]
  readonly errorCode: number
  readonly groups: readonly OffsetFetchResponseOffsetFetchResponseGroup[]
}

export interface FindCoordinatorRequest {
  readonly key: string
  readonly keyType: number
  readonly coordinatorKeys: readonly string[]
}

export interface FindCoordinatorResponseCoordinator {
  readonly key: string
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface FindCoordinatorResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly coordinators: readonly FindCoordinatorResponseCoordinator[]
}

export interface JoinGroupRequestJoinGroupRequestProtocol {
  readonly name: string
  readonly metadata: Buffer
}

export interface JoinGroupRequest {
  readonly groupId: string
  readonly sessionTimeoutMs: number
  readonly rebalanceTimeoutMs: number
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly protocolType: string
  readonly protocols: readonly JoinGroupRequestJoinGroupRequestProtocol[]
  readonly reason: string | null
}

export interface JoinGroupResponseJoinGroupResponseMember {
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly metadata: Buffer
}

export interface JoinGroupResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly generationId: number
  readonly protocolType: string | null
  readonly protocolName: string | null
  readonly leader: string
  readonly skipAssignment: boolean
  readonly memberId: string
  readonly members: readonly JoinGroupResponseJoinGroupResponseMember[]
}

export interface HeartbeatRequest {
  readonly groupId: string
  readonly generationId: number
  readonly memberId: string
  readonly groupInstanceId: string | null
}

export interface HeartbeatResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
}

export interface LeaveGroupRequestMemberIdentity {
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly reason: string | null
}

export interface LeaveGroupRequest {
  readonly groupId: string
  readonly memberId: string
  readonly members: readonly LeaveGroupRequestMemberIdentity[]
}

export interface LeaveGroupResponseMemberResponse {
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly errorCode: number
}

export interface LeaveGroupResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly members: readonly LeaveGroupResponseMemberResponse[]
}

export interface SyncGroupRequestSyncGroupRequestAssignment {
  readonly memberId: string
  readonly assignment: Buffer
}

export interface SyncGroupRequest {
  readonly groupId: string
  readonly generationId: number
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly protocolType: string | null
  readonly protocolName: string | null
  readonly assignments: readonly SyncGroupRequestSyncGroupRequestAssignment[]
}

export interface SyncGroupResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly protocolType: string | null
  readonly protocolName: string | null
  readonly assignment: Buffer
}

export interface DescribeGroupsRequest {
  readonly groups: readonly string[]
  readonly includeAuthorizedOperations: boolean
}

export interface DescribeGroupsResponseDescribedGroupMember {
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly memberMetadata: Buffer
  readonly memberAssignment: Buffer
}

export interface DescribeGroupsResponseDescribedGroup {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly groupId: string
  readonly groupState: string
  readonly protocolType: string
  readonly protocolData: string
  readonly members: readonly DescribeGroupsResponseDescribedGroupMember[]
  readonly authorizedOperations: number
}

export interface DescribeGroupsResponse {
  readonly throttleTimeMs: number
  readonly groups: readonly DescribeGroupsResponseDescribedGroup[]
}

export interface ListGroupsRequest {
  readonly statesFilter: readonly string[]
  readonly typesFilter: readonly string[]
}

export interface ListGroupsResponseListedGroup {
  readonly groupId: string
  readonly protocolType: string
  readonly groupState: string
  readonly groupType: string
}

export interface ListGroupsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly groups: readonly ListGroupsResponseListedGroup[]
}

export interface SaslHandshakeRequest {
  readonly mechanism: string
}

export interface SaslHandshakeResponse {
  readonly errorCode: number
  readonly mechanisms: readonly string[]
}

export interface ApiVersionsRequest {
  readonly clientSoftwareName: string
  readonly clientSoftwareVersion: string
  readonly clusterId: string | null
  readonly nodeId: number
}

export interface ApiVersionsResponseApiVersion {
  readonly apiKey: number
  readonly minVersion: number
  readonly maxVersion: number
}

export interface ApiVersionsResponseSupportedFeatureKey {
  readonly name: string
  readonly minVersion: number
  readonly maxVersion: number
}

export interface ApiVersionsResponseFinalizedFeatureKey {
  readonly name: string
  readonly maxVersionLevel: number
  readonly minVersionLevel: number
}

export interface ApiVersionsResponse {
  readonly errorCode: number
  readonly apiKeys: readonly ApiVersionsResponseApiVersion[]
  readonly throttleTimeMs: number
  readonly supportedFeatures: readonly ApiVersionsResponseSupportedFeatureKey[]
  readonly finalizedFeaturesEpoch: number
  readonly finalizedFeatures: readonly ApiVersionsResponseFinalizedFeatureKey[]
  readonly zkMigrationReady: boolean
}

export interface CreateTopicsRequestCreatableReplicaAssignment {
  readonly partitionIndex: number
  readonly brokerIds: readonly number[]
}

export interface CreateTopicsRequestCreatableTopicConfig {
  readonly name: string
  readonly value: string | null
}

export interface CreateTopicsRequestCreatableTopic {
  readonly name: string
  readonly numPartitions: number
  readonly replicationFactor: number
  readonly assignments: readonly CreateTopicsRequestCreatableReplicaAssignment[]
  readonly configs: readonly CreateTopicsRequestCreatableTopicConfig[]
}

export interface CreateTopicsRequest {
  readonly topics: readonly CreateTopicsRequestCreatableTopic[]
  readonly timeoutMs: number
  readonly validateOnly: boolean
}

export interface CreateTopicsResponseCreatableTopicConfigs {
  readonly name: string
  readonly value: string | null
  readonly readOnly: boolean
  readonly configSource: number
  readonly isSensitive: boolean
}

export interface CreateTopicsResponseCreatableTopicResult {
  readonly name: string
  readonly topicId: Uuid
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly topicConfigErrorCode: number
  readonly numPartitions: number
  readonly replicationFactor: number
  readonly configs: readonly CreateTopicsResponseCreatableTopicConfigs[] | null
}

export interface CreateTopicsResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly CreateTopicsResponseCreatableTopicResult[]
}

export interface DeleteTopicsRequestDeleteTopicState {
  readonly name: string | null
  readonly topicId: Uuid
}

export interface DeleteTopicsRequest {
  readonly topics: readonly DeleteTopicsRequestDeleteTopicState[]
  readonly topicNames: readonly string[]
  readonly timeoutMs: number
}

export interface DeleteTopicsResponseDeletableTopicResult {
  readonly name: string | null
  readonly topicId: Uuid
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface DeleteTopicsResponse {
  readonly throttleTimeMs: number
  readonly responses: readonly DeleteTopicsResponseDeletableTopicResult[]
}

export interface DeleteRecordsRequestDeleteRecordsPartition {
  readonly partitionIndex: number
  readonly offset: number
}

export interface DeleteRecordsRequestDeleteRecordsTopic {
  readonly name: string
  readonly partitions: readonly DeleteRecordsRequestDeleteRecordsPartition[]
}

export interface DeleteRecordsRequest {
  readonly topics: readonly DeleteRecordsRequestDeleteRecordsTopic[]
  readonly timeoutMs: number
}

export interface DeleteRecordsResponseDeleteRecordsPartitionResult {
  readonly partitionIndex: number
  readonly lowWatermark: number
  readonly errorCode: number
}

export interface DeleteRecordsResponseDeleteRecordsTopicResult {
  readonly name: string
  readonly partitions: readonly DeleteRecordsResponseDeleteRecordsPartitionResult[]
}

export interface DeleteRecordsResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly DeleteRecordsResponseDeleteRecordsTopicResult[]
}

export interface InitProducerIdRequest {
  readonly transactionalId: string | null
  readonly transactionTimeoutMs: number
  readonly producerId: number
  readonly producerEpoch: number
  readonly enable2Pc: boolean
  readonly keepPreparedTxn: boolean
}

export interface InitProducerIdResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly producerId: number
  readonly producerEpoch: number
  readonly ongoingTxnProducerId: number
  readonly ongoingTxnProducerEpoch: number
}

export interface OffsetForLeaderEpochRequestOffsetForLeaderPartition {
  readonly partition: number
  readonly currentLeaderEpoch: number
  readonly leaderEpoch: number
}

export interface OffsetForLeaderEpochRequestOffsetForLeaderTopic {
  readonly topic: string
  readonly partitions: readonly OffsetForLeaderEpochRequestOffsetForLeaderPartition[]
}

export interface OffsetForLeaderEpochRequest {
  readonly replicaId: number
  readonly topics: readonly OffsetForLeaderEpochRequestOffsetForLeaderTopic[]
}

export interface OffsetForLeaderEpochResponseEpochEndOffset {
  readonly errorCode: number
  readonly partition: number
  readonly leaderEpoch: number
  readonly endOffset: number
}

export interface OffsetForLeaderEpochResponseOffsetForLeaderTopicResult {
  readonly topic: string
  readonly partitions: readonly OffsetForLeaderEpochResponseEpochEndOffset[]
}

export interface OffsetForLeaderEpochResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly OffsetForLeaderEpochResponseOffsetForLeaderTopicResult[]
}

export interface AddPartitionsToTxnRequestAddPartitionsToTxnTopic {
  readonly name: string
  readonly partitions: readonly number[]
}

export interface AddPartitionsToTxnRequestAddPartitionsToTxnTransaction {
  readonly transactionalId: string
  readonly producerId: number
  readonly producerEpoch: number
  readonly verifyOnly: boolean
  readonly topics: readonly AddPartitionsToTxnRequestAddPartitionsToTxnTopic[]
}

export interface AddPartitionsToTxnRequest {
  readonly transactions: readonly AddPartitionsToTxnRequestAddPartitionsToTxnTransaction[]
  readonly v3AndBelowTransactionalId: string
  readonly v3AndBelowProducerId: number
  readonly v3AndBelowProducerEpoch: number
  readonly v3AndBelowTopics: readonly AddPartitionsToTxnRequestAddPartitionsToTxnTopic[]
}

export interface AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult {
  readonly partitionIndex: number
  readonly partitionErrorCode: number
}

export interface AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult {
  readonly name: string
  readonly resultsByPartition: readonly AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult[]
}

export interface AddPartitionsToTxnResponseAddPartitionsToTxnResult {
  readonly transactionalId: string
  readonly topicResults: readonly AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult[]
}

export interface AddPartitionsToTxnResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly resultsByTransaction: readonly AddPartitionsToTxnResponseAddPartitionsToTxnResult[]
  readonly resultsByTopicV3AndBelow: readonly AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult[]
}

export interface AddOffsetsToTxnRequest {
  readonly transactionalId: string
  readonly producerId: number
  readonly producerEpoch: number
  readonly groupId: string
}

export interface AddOffsetsToTxnResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
}

export interface EndTxnRequest {
  readonly transactionalId: string
  readonly producerId: number
  readonly producerEpoch: number
  readonly committed: boolean
}

export interface EndTxnResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly producerId: number
  readonly producerEpoch: number
}

export interface WriteTxnMarkersRequestWritableTxnMarkerTopic {
  readonly name: string
  readonly partitionIndexes: readonly number[]
}

export interface WriteTxnMarkersRequestWritableTxnMarker {
  readonly producerId: number
  readonly producerEpoch: number
  readonly transactionResult: boolean
  readonly topics: readonly WriteTxnMarkersRequestWritableTxnMarkerTopic[]
  readonly coordinatorEpoch: number
  readonly transactionVersion: number
}

export interface WriteTxnMarkersRequest {
  readonly markers: readonly WriteTxnMarkersRequestWritableTxnMarker[]
}

export interface WriteTxnMarkersResponseWritableTxnMarkerPartitionResult {
  readonly partitionIndex: number
  readonly errorCode: number
}

export interface WriteTxnMarkersResponseWritableTxnMarkerTopicResult {
  readonly name: string
  readonly partitions: readonly WriteTxnMarkersResponseWritableTxnMarkerPartitionResult[]
}

export interface WriteTxnMarkersResponseWritableTxnMarkerResult {
  readonly producerId: number
  readonly topics: readonly WriteTxnMarkersResponseWritableTxnMarkerTopicResult[]
}

export interface WriteTxnMarkersResponse {
  readonly markers: readonly WriteTxnMarkersResponseWritableTxnMarkerResult[]
}

export interface TxnOffsetCommitRequestTxnOffsetCommitRequestPartition {
  readonly partitionIndex: number
  readonly committedOffset: number
  readonly committedLeaderEpoch: number
  readonly committedMetadata: string | null
}

export interface TxnOffsetCommitRequestTxnOffsetCommitRequestTopic {
  readonly name: string
  readonly topicId: Uuid
  readonly partitions: readonly TxnOffsetCommitRequestTxnOffsetCommitRequestPartition[]
}

export interface TxnOffsetCommitRequest {
  readonly transactionalId: string
  readonly groupId: string
  readonly producerId: number
  readonly producerEpoch: number
  readonly generationIdOrMemberEpoch: number
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly topics: readonly TxnOffsetCommitRequestTxnOffsetCommitRequestTopic[]
}

export interface TxnOffsetCommitResponseTxnOffsetCommitResponsePartition {
  readonly partitionIndex: number
  readonly errorCode: number
}

export interface TxnOffsetCommitResponseTxnOffsetCommitResponseTopic {
  readonly name: string
  readonly topicId: Uuid
  readonly partitions: readonly TxnOffsetCommitResponseTxnOffsetCommitResponsePartition[]
}

export interface TxnOffsetCommitResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly TxnOffsetCommitResponseTxnOffsetCommitResponseTopic[]
}

export interface DescribeAclsRequest {
  readonly resourceTypeFilter: number
  readonly resourceNameFilter: string | null
  readonly patternTypeFilter: number
  readonly principalFilter: string | null
  readonly hostFilter: string | null
  readonly operation: number
  readonly permissionType: number
}

export interface DescribeAclsResponseAclDescription {
  readonly principal: string
  readonly host: string
  readonly operation: number
  readonly permissionType: number
}

export interface DescribeAclsResponseDescribeAclsResource {
  readonly resourceType: number
  readonly resourceName: string
  readonly patternType: number
  readonly acls: readonly DescribeAclsResponseAclDescription[]
}

export interface DescribeAclsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly resources: readonly DescribeAclsResponseDescribeAclsResource[]
}

export interface CreateAclsRequestAclCreation {
  readonly resourceType: number
  readonly resourceName: string
  readonly resourcePatternType: number
  readonly principal: string
  readonly host: string
  readonly operation: number
  readonly permissionType: number
}

export interface CreateAclsRequest {
  readonly creations: readonly CreateAclsRequestAclCreation[]
}

export interface CreateAclsResponseAclCreationResult {
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface CreateAclsResponse {
  readonly throttleTimeMs: number
  readonly results: readonly CreateAclsResponseAclCreationResult[]
}

export interface DeleteAclsRequestDeleteAclsFilter {
  readonly resourceTypeFilter: number
  readonly resourceNameFilter: string | null
  readonly patternTypeFilter: number
  readonly principalFilter: string | null
  readonly hostFilter: string | null
  readonly operation: number
  readonly permissionType: number
}

export interface DeleteAclsRequest {
  readonly filters: readonly DeleteAclsRequestDeleteAclsFilter[]
}

export interface DeleteAclsResponseDeleteAclsMatchingAcl {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly resourceType: number
  readonly resourceName: string
  readonly patternType: number
  readonly principal: string
  readonly host: string
  readonly operation: number
  readonly permissionType: number
}

export interface DeleteAclsResponseDeleteAclsFilterResult {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly matchingAcls: readonly DeleteAclsResponseDeleteAclsMatchingAcl[]
}

export interface DeleteAclsResponse {
  readonly throttleTimeMs: number
  readonly filterResults: readonly DeleteAclsResponseDeleteAclsFilterResult[]
}

export interface DescribeConfigsRequestDescribeConfigsResource {
  readonly resourceType: number
  readonly resourceName: string
  readonly configurationKeys: readonly string[] | null
}

export interface DescribeConfigsRequest {
  readonly resources: readonly DescribeConfigsRequestDescribeConfigsResource[]
  readonly includeSynonyms: boolean
  readonly includeDocumentation: boolean
}

export interface DescribeConfigsResponseDescribeConfigsSynonym {
  readonly name: string
  readonly value: string | null
  readonly source: number
}

export interface DescribeConfigsResponseDescribeConfigsResourceResult {
  readonly name: string
  readonly value: string | null
  readonly readOnly: boolean
  readonly configSource: number
  readonly isSensitive: boolean
  readonly synonyms: readonly DescribeConfigsResponseDescribeConfigsSynonym[]
  readonly configType: number
  readonly documentation: string | null
}

export interface DescribeConfigsResponseDescribeConfigsResult {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly resourceType: number
  readonly resourceName: string
  readonly configs: readonly DescribeConfigsResponseDescribeConfigsResourceResult[]
}

export interface DescribeConfigsResponse {
  readonly throttleTimeMs: number
  readonly results: readonly DescribeConfigsResponseDescribeConfigsResult[]
}

export interface AlterConfigsRequestAlterableConfig {
  readonly name: string
  readonly value: string | null
}

export interface AlterConfigsRequestAlterConfigsResource {
  readonly resourceType: number
  readonly resourceName: string
  readonly configs: readonly AlterConfigsRequestAlterableConfig[]
}

export interface AlterConfigsRequest {
  readonly resources: readonly AlterConfigsRequestAlterConfigsResource[]
  readonly validateOnly: boolean
}

export interface AlterConfigsResponseAlterConfigsResourceResponse {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly resourceType: number
  readonly resourceName: string
}

export interface AlterConfigsResponse {
  readonly throttleTimeMs: number
  readonly responses: readonly AlterConfigsResponseAlterConfigsResourceResponse[]
}

export interface AlterReplicaLogDirsRequestAlterReplicaLogDirTopic {
  readonly name: string
  readonly partitions: readonly number[]
}

export interface AlterReplicaLogDirsRequestAlterReplicaLogDir {
  readonly path: string
  readonly topics: readonly AlterReplicaLogDirsRequestAlterReplicaLogDirTopic[]
}

export interface AlterReplicaLogDirsRequest {
  readonly dirs: readonly AlterReplicaLogDirsRequestAlterReplicaLogDir[]
}

export interface AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult {
  readonly partitionIndex: number
  readonly errorCode: number
}

export interface AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult {
  readonly topicName: string
  readonly partitions: readonly AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult[]
}

export interface AlterReplicaLogDirsResponse {
  readonly throttleTimeMs: number
  readonly results: readonly AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult[]
}

export interface DescribeLogDirsRequestDescribableLogDirTopic {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface DescribeLogDirsRequest {
  readonly topics: readonly DescribeLogDirsRequestDescribableLogDirTopic[] | null
}

export interface DescribeLogDirsResponseDescribeLogDirsPartition {
  readonly partitionIndex: number
  readonly partitionSize: number
  readonly offsetLag: number
  readonly isFutureKey: boolean
}

export interface DescribeLogDirsResponseDescribeLogDirsTopic {
  readonly name: string
  readonly partitions: readonly DescribeLogDirsResponseDescribeLogDirsPartition[]
}

export interface DescribeLogDirsResponseDescribeLogDirsResult {
  readonly errorCode: number
  readonly logDir: string
  readonly topics: readonly DescribeLogDirsResponseDescribeLogDirsTopic[]
  readonly totalBytes: number
  readonly usableBytes: number
  readonly isCordoned: boolean
}

export interface DescribeLogDirsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly results: readonly DescribeLogDirsResponseDescribeLogDirsResult[]
}

export interface SaslAuthenticateRequest {
  readonly authBytes: Buffer
}

export interface SaslAuthenticateResponse {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly authBytes: Buffer
  readonly sessionLifetimeMs: number
}

export interface CreatePartitionsRequestCreatePartitionsAssignment {
  readonly brokerIds: readonly number[]
}

export interface CreatePartitionsRequestCreatePartitionsTopic {
  readonly name: string
  readonly count: number
  readonly assignments: readonly CreatePartitionsRequestCreatePartitionsAssignment[] | null
}

export interface CreatePartitionsRequest {
  readonly topics: readonly CreatePartitionsRequestCreatePartitionsTopic[]
  readonly timeoutMs: number
  readonly validateOnly: boolean
}

export interface CreatePartitionsResponseCreatePartitionsTopicResult {
  readonly name: string
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface CreatePartitionsResponse {
  readonly throttleTimeMs: number
  readonly results: readonly CreatePartitionsResponseCreatePartitionsTopicResult[]
}

export interface CreateDelegationTokenRequestCreatableRenewers {
  readonly principalType: string
  readonly principalName: string
}

export interface CreateDelegationTokenRequest {
  readonly ownerPrincipalType: string | null
  readonly ownerPrincipalName: string | null
  readonly renewers: readonly CreateDelegationTokenRequestCreatableRenewers[]
  readonly maxLifetimeMs: number
}

export interface CreateDelegationTokenResponse {
  readonly errorCode: number
  readonly principalType: string
  readonly principalName: string
  readonly tokenRequesterPrincipalType: string
  readonly tokenRequesterPrincipalName: string
  readonly issueTimestampMs: number
  readonly expiryTimestampMs: number
  readonly maxTimestampMs: number
  readonly tokenId: string
  readonly hmac: Buffer
  readonly throttleTimeMs: number
}

export interface RenewDelegationTokenRequest {
  readonly hmac: Buffer
  readonly renewPeriodMs: number
}

export interface RenewDelegationTokenResponse {
  readonly errorCode: number
  readonly expiryTimestampMs: number
  readonly throttleTimeMs: number
}

export interface ExpireDelegationTokenRequest {
  readonly hmac: Buffer
  readonly expiryTimePeriodMs: number
}

export interface ExpireDelegationTokenResponse {
  readonly errorCode: number
  readonly expiryTimestampMs: number
  readonly throttleTimeMs: number
}

export interface DescribeDelegationTokenRequestDescribeDelegationTokenOwner {
  readonly principalType: string
  readonly principalName: string
}

export interface DescribeDelegationTokenRequest {
  readonly owners: readonly DescribeDelegationTokenRequestDescribeDelegationTokenOwner[] | null
}

export interface DescribeDelegationTokenResponseDescribedDelegationTokenRenewer {
  readonly principalType: string
  readonly principalName: string
}

export interface DescribeDelegationTokenResponseDescribedDelegationToken {
  readonly principalType: string
  readonly principalName: string
  readonly tokenRequesterPrincipalType: string
  readonly tokenRequesterPrincipalName: string
  readonly issueTimestamp: number
  readonly expiryTimestamp: number
  readonly maxTimestamp: number
  readonly tokenId: string
  readonly hmac: Buffer
  readonly renewers: readonly DescribeDelegationTokenResponseDescribedDelegationTokenRenewer[]
}

export interface DescribeDelegationTokenResponse {
  readonly errorCode: number
  readonly tokens: readonly DescribeDelegationTokenResponseDescribedDelegationToken[]
  readonly throttleTimeMs: number
}

export interface DeleteGroupsRequest {
  readonly groupsNames: readonly string[]
}

export interface DeleteGroupsResponseDeletableGroupResult {
  readonly groupId: string
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface DeleteGroupsResponse {
  readonly throttleTimeMs: number
  readonly results: readonly DeleteGroupsResponseDeletableGroupResult[]
}

export interface ElectLeadersRequestTopicPartitions {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface ElectLeadersRequest {
  readonly electionType: number
  readonly topicPartitions: readonly ElectLeadersRequestTopicPartitions[] | null
  readonly timeoutMs: number
}

export interface ElectLeadersResponsePartitionResult {
  readonly partitionId: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface ElectLeadersResponseReplicaElectionResult {
  readonly topic: string
  readonly partitionResult: readonly ElectLeadersResponsePartitionResult[]
}

export interface ElectLeadersResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly replicaElectionResults: readonly ElectLeadersResponseReplicaElectionResult[]
}

export interface IncrementalAlterConfigsRequestAlterableConfig {
  readonly name: string
  readonly configOperation: number
  readonly value: string | null
}

export interface IncrementalAlterConfigsRequestAlterConfigsResource {
  readonly resourceType: number
  readonly resourceName: string
  readonly configs: readonly IncrementalAlterConfigsRequestAlterableConfig[]
}

export interface IncrementalAlterConfigsRequest {
  readonly resources: readonly IncrementalAlterConfigsRequestAlterConfigsResource[]
  readonly validateOnly: boolean
}

export interface IncrementalAlterConfigsResponseAlterConfigsResourceResponse {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly resourceType: number
  readonly resourceName: string
}

export interface IncrementalAlterConfigsResponse {
  readonly throttleTimeMs: number
  readonly responses: readonly IncrementalAlterConfigsResponseAlterConfigsResourceResponse[]
}

export interface AlterPartitionReassignmentsRequestReassignablePartition {
  readonly partitionIndex: number
  readonly replicas: readonly number[] | null
}

export interface AlterPartitionReassignmentsRequestReassignableTopic {
  readonly name: string
  readonly partitions: readonly AlterPartitionReassignmentsRequestReassignablePartition[]
}

export interface AlterPartitionReassignmentsRequest {
  readonly timeoutMs: number
  readonly allowReplicationFactorChange: boolean
  readonly topics: readonly AlterPartitionReassignmentsRequestReassignableTopic[]
}

export interface AlterPartitionReassignmentsResponseReassignablePartitionResponse {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface AlterPartitionReassignmentsResponseReassignableTopicResponse {
  readonly name: string
  readonly partitions: readonly AlterPartitionReassignmentsResponseReassignablePartitionResponse[]
}

export interface AlterPartitionReassignmentsResponse {
  readonly throttleTimeMs: number
  readonly allowReplicationFactorChange: boolean
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly responses: readonly AlterPartitionReassignmentsResponseReassignableTopicResponse[]
}

export interface ListPartitionReassignmentsRequestListPartitionReassignmentsTopics {
  readonly name: string
  readonly partitionIndexes: readonly number[]
}

export interface ListPartitionReassignmentsRequest {
  readonly timeoutMs: number
  readonly topics: readonly ListPartitionReassignmentsRequestListPartitionReassignmentsTopics[] | null
}

export interface ListPartitionReassignmentsResponseOngoingPartitionReassignment {
  readonly partitionIndex: number
  readonly replicas: readonly number[]
  readonly addingReplicas: readonly number[]
  readonly removingReplicas: readonly number[]
}

export interface ListPartitionReassignmentsResponseOngoingTopicReassignment {
  readonly name: string
  readonly partitions: readonly ListPartitionReassignmentsResponseOngoingPartitionReassignment[]
}

export interface ListPartitionReassignmentsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly topics: readonly ListPartitionReassignmentsResponseOngoingTopicReassignment[]
}

export interface OffsetDeleteRequestOffsetDeleteRequestPartition {
  readonly partitionIndex: number
}

export interface OffsetDeleteRequestOffsetDeleteRequestTopic {
  readonly name: string
  readonly partitions: readonly OffsetDeleteRequestOffsetDeleteRequestPartition[]
}

export interface OffsetDeleteRequest {
  readonly groupId: string
  readonly topics: readonly OffsetDeleteRequestOffsetDeleteRequestTopic[]
}

export interface OffsetDeleteResponseOffsetDeleteResponsePartition {
  readonly partitionIndex: number
  readonly errorCode: number
}

export interface OffsetDeleteResponseOffsetDeleteResponseTopic {
  readonly name: string
  readonly partitions: readonly OffsetDeleteResponseOffsetDeleteResponsePartition[]
}

export interface OffsetDeleteResponse {
  readonly errorCode: number
  readonly throttleTimeMs: number
  readonly topics: readonly OffsetDeleteResponseOffsetDeleteResponseTopic[]
}

export interface DescribeClientQuotasRequestComponentData {
  readonly entityType: string
  readonly matchType: number
  readonly match: string | null
}

export interface DescribeClientQuotasRequest {
  readonly components: readonly DescribeClientQuotasRequestComponentData[]
  readonly strict: boolean
}

export interface DescribeClientQuotasResponseEntityData {
  readonly entityType: string
  readonly entityName: string | null
}

export interface DescribeClientQuotasResponseValueData {
  readonly key: string
  readonly value: number
}

export interface DescribeClientQuotasResponseEntryData {
  readonly entity: readonly DescribeClientQuotasResponseEntityData[]
  readonly values: readonly DescribeClientQuotasResponseValueData[]
}

export interface DescribeClientQuotasResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly entries: readonly DescribeClientQuotasResponseEntryData[] | null
}

export interface AlterClientQuotasRequestEntityData {
  readonly entityType: string
  readonly entityName: string | null
}

export interface AlterClientQuotasRequestOpData {
  readonly key: string
  readonly value: number
  readonly remove: boolean
}

export interface AlterClientQuotasRequestEntryData {
  readonly entity: readonly AlterClientQuotasRequestEntityData[]
  readonly ops: readonly AlterClientQuotasRequestOpData[]
}

export interface AlterClientQuotasRequest {
  readonly entries: readonly AlterClientQuotasRequestEntryData[]
  readonly validateOnly: boolean
}

export interface AlterClientQuotasResponseEntityData {
  readonly entityType: string
  readonly entityName: string | null
}

export interface AlterClientQuotasResponseEntryData {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly entity: readonly AlterClientQuotasResponseEntityData[]
}

export interface AlterClientQuotasResponse {
  readonly throttleTimeMs: number
  readonly entries: readonly AlterClientQuotasResponseEntryData[]
}

export interface DescribeUserScramCredentialsRequestUserName {
  readonly name: string
}

export interface DescribeUserScramCredentialsRequest {
  readonly users: readonly DescribeUserScramCredentialsRequestUserName[] | null
}

export interface DescribeUserScramCredentialsResponseCredentialInfo {
  readonly mechanism: number
  readonly iterations: number
}

export interface DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult {
  readonly user: string
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly credentialInfos: readonly DescribeUserScramCredentialsResponseCredentialInfo[]
}

export interface DescribeUserScramCredentialsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly results: readonly DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult[]
}

export interface AlterUserScramCredentialsRequestScramCredentialDeletion {
  readonly name: string
  readonly mechanism: number
}

export interface AlterUserScramCredentialsRequestScramCredentialUpsertion {
  readonly name: string
  readonly mechanism: number
  readonly iterations: number
  readonly salt: Buffer
  readonly saltedPassword: Buffer
}

export interface AlterUserScramCredentialsRequest {
  readonly deletions: readonly AlterUserScramCredentialsRequestScramCredentialDeletion[]
  readonly upsertions: readonly AlterUserScramCredentialsRequestScramCredentialUpsertion[]
}

export interface AlterUserScramCredentialsResponseAlterUserScramCredentialsResult {
  readonly user: string
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface AlterUserScramCredentialsResponse {
  readonly throttleTimeMs: number
  readonly results: readonly AlterUserScramCredentialsResponseAlterUserScramCredentialsResult[]
}

export interface VoteRequestPartitionData {
  readonly partitionIndex: number
  readonly replicaEpoch: number
  readonly replicaId: number
  readonly replicaDirectoryId: Uuid
  readonly voterDirectoryId: Uuid
  readonly lastOffsetEpoch: number
  readonly lastOffset: number
  readonly preVote: boolean
}

export interface VoteRequestTopicData {
  readonly topicName: string
  readonly partitions: readonly VoteRequestPartitionData[]
}

export interface VoteRequest {
  readonly clusterId: string | null
  readonly voterId: number
  readonly topics: readonly VoteRequestTopicData[]
}

export interface VoteResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly voteGranted: boolean
}

export interface VoteResponseTopicData {
  readonly topicName: string
  readonly partitions: readonly VoteResponsePartitionData[]
}

export interface VoteResponseNodeEndpoint {
  readonly nodeId: number
  readonly host: string
  readonly port: number
}

export interface VoteResponse {
  readonly errorCode: number
  readonly topics: readonly VoteResponseTopicData[]
  readonly nodeEndpoints: readonly VoteResponseNodeEndpoint[]
}

export interface BeginQuorumEpochRequestPartitionData {
  readonly partitionIndex: number
  readonly voterDirectoryId: Uuid
  readonly leaderId: number
  readonly leaderEpoch: number
}

export interface BeginQuorumEpochRequestTopicData {
  readonly topicName: string
  readonly partitions: readonly BeginQuorumEpochRequestPartitionData[]
}

export interface BeginQuorumEpochRequestLeaderEndpoint {
  readonly name: string
  readonly host: string
  readonly port: number
}

export interface BeginQuorumEpochRequest {
  readonly clusterId: string | null
  readonly voterId: number
  readonly topics: readonly BeginQuorumEpochRequestTopicData[]
  readonly leaderEndpoints: readonly BeginQuorumEpochRequestLeaderEndpoint[]
}

export interface BeginQuorumEpochResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly leaderId: number
  readonly leaderEpoch: number
}

export interface BeginQuorumEpochResponseTopicData {
  readonly topicName: string
  readonly partitions: readonly BeginQuorumEpochResponsePartitionData[]
}

export interface BeginQuorumEpochResponseNodeEndpoint {
  readonly nodeId: number
  readonly host: string
  readonly port: number
}

export interface BeginQuorumEpochResponse {
  readonly errorCode: number
  readonly topics: readonly BeginQuorumEpochResponseTopicData[]
  readonly nodeEndpoints: readonly BeginQuorumEpochResponseNodeEndpoint[]
}

export interface EndQuorumEpochRequestReplicaInfo {
  readonly candidateId: number
  readonly candidateDirectoryId: Uuid
}

export interface EndQuorumEpochRequestPartitionData {
  readonly partitionIndex: number
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly preferredSuccessors: readonly number[]
  readonly preferredCandidates: readonly EndQuorumEpochRequestReplicaInfo[]
}

export interface EndQuorumEpochRequestTopicData {
  readonly topicName: string
  readonly partitions: readonly EndQuorumEpochRequestPartitionData[]
}

export interface EndQuorumEpochRequestLeaderEndpoint {
  readonly name: string
  readonly host: string
  readonly port: number
}

export interface EndQuorumEpochRequest {
  readonly clusterId: string | null
  readonly topics: readonly EndQuorumEpochRequestTopicData[]
  readonly leaderEndpoints: readonly EndQuorumEpochRequestLeaderEndpoint[]
}

export interface EndQuorumEpochResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly leaderId: number
  readonly leaderEpoch: number
}

export interface EndQuorumEpochResponseTopicData {
  readonly topicName: string
  readonly partitions: readonly EndQuorumEpochResponsePartitionData[]
}

export interface EndQuorumEpochResponseNodeEndpoint {
  readonly nodeId: number
  readonly host: string
  readonly port: number
}

export interface EndQuorumEpochResponse {
  readonly errorCode: number
  readonly topics: readonly EndQuorumEpochResponseTopicData[]
  readonly nodeEndpoints: readonly EndQuorumEpochResponseNodeEndpoint[]
}

export interface DescribeQuorumRequestPartitionData {
  readonly partitionIndex: number
}

export interface DescribeQuorumRequestTopicData {
  readonly topicName: string
  readonly partitions: readonly DescribeQuorumRequestPartitionData[]
}

export interface DescribeQuorumRequest {
  readonly topics: readonly DescribeQuorumRequestTopicData[]
}

export interface DescribeQuorumResponseReplicaState {
  readonly replicaId: number
  readonly replicaDirectoryId: Uuid
  readonly logEndOffset: number
  readonly lastFetchTimestamp: number
  readonly lastCaughtUpTimestamp: number
}

export interface DescribeQuorumResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly highWatermark: number
  readonly currentVoters: readonly DescribeQuorumResponseReplicaState[]
  readonly observers: readonly DescribeQuorumResponseReplicaState[]
}

export interface DescribeQuorumResponseTopicData {
  readonly topicName: string
  readonly partitions: readonly DescribeQuorumResponsePartitionData[]
}

export interface DescribeQuorumResponseListener {
  readonly name: string
  readonly host: string
  readonly port: number
}

export interface DescribeQuorumResponseNode {
  readonly nodeId: number
  readonly listeners: readonly DescribeQuorumResponseListener[]
}

export interface DescribeQuorumResponse {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly topics: readonly DescribeQuorumResponseTopicData[]
  readonly nodes: readonly DescribeQuorumResponseNode[]
}

export interface AlterPartitionRequestBrokerState {
  readonly brokerId: number
  readonly brokerEpoch: number
}

export interface AlterPartitionRequestPartitionData {
  readonly partitionIndex: number
  readonly leaderEpoch: number
  readonly newIsr: readonly number[]
  readonly newIsrWithEpochs: readonly AlterPartitionRequestBrokerState[]
  readonly leaderRecoveryState: number
  readonly partitionEpoch: number
}

export interface AlterPartitionRequestTopicData {
  readonly topicId: Uuid
  readonly partitions: readonly AlterPartitionRequestPartitionData[]
}

export interface AlterPartitionRequest {
  readonly brokerId: number
  readonly brokerEpoch: number
  readonly topics: readonly AlterPartitionRequestTopicData[]
}

export interface AlterPartitionResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly isr: readonly number[]
  readonly leaderRecoveryState: number
  readonly partitionEpoch: number
}

export interface AlterPartitionResponseTopicData {
  readonly topicId: Uuid
  readonly partitions: readonly AlterPartitionResponsePartitionData[]
}

export interface AlterPartitionResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly topics: readonly AlterPartitionResponseTopicData[]
}

export interface UpdateFeaturesRequestFeatureUpdateKey {
  readonly feature: string
  readonly maxVersionLevel: number
  readonly allowDowngrade: boolean
  readonly upgradeType: number
}

export interface UpdateFeaturesRequest {
  readonly timeoutMs: number
  readonly featureUpdates: readonly UpdateFeaturesRequestFeatureUpdateKey[]
  readonly validateOnly: boolean
}

export interface UpdateFeaturesResponseUpdatableFeatureResult {
  readonly feature: string
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface UpdateFeaturesResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly results: readonly UpdateFeaturesResponseUpdatableFeatureResult[]
}

export interface EnvelopeRequest {
  readonly requestData: Buffer
  readonly requestPrincipal: Buffer | null
  readonly clientHostAddress: Buffer
}

export interface EnvelopeResponse {
  readonly responseData: Buffer | null
  readonly errorCode: number
}

export interface FetchSnapshotRequestSnapshotId {
  readonly endOffset: number
  readonly epoch: number
}

export interface FetchSnapshotRequestPartitionSnapshot {
  readonly partition: number
  readonly currentLeaderEpoch: number
  readonly snapshotId: FetchSnapshotRequestSnapshotId
  readonly position: number
  readonly replicaDirectoryId: Uuid
}

export interface FetchSnapshotRequestTopicSnapshot {
  readonly name: string
  readonly partitions: readonly FetchSnapshotRequestPartitionSnapshot[]
}

export interface FetchSnapshotRequest {
  readonly clusterId: string | null
  readonly replicaId: number
  readonly maxBytes: number
  readonly topics: readonly FetchSnapshotRequestTopicSnapshot[]
}

export interface FetchSnapshotResponseSnapshotId {
  readonly endOffset: number
  readonly epoch: number
}

export interface FetchSnapshotResponseLeaderIdAndEpoch {
  readonly leaderId: number
  readonly leaderEpoch: number
}

export interface FetchSnapshotResponsePartitionSnapshot {
  readonly index: number
  readonly errorCode: number
  readonly snapshotId: FetchSnapshotResponseSnapshotId
  readonly currentLeader: FetchSnapshotResponseLeaderIdAndEpoch
  readonly size: number
  readonly position: number
  readonly unalignedRecords: Buffer
}

export interface FetchSnapshotResponseTopicSnapshot {
  readonly name: string
  readonly partitions: readonly FetchSnapshotResponsePartitionSnapshot[]
}

export interface FetchSnapshotResponseNodeEndpoint {
  readonly nodeId: number
  readonly host: string
  readonly port: number
}

export interface FetchSnapshotResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly topics: readonly FetchSnapshotResponseTopicSnapshot[]
  readonly nodeEndpoints: readonly FetchSnapshotResponseNodeEndpoint[]
}

export interface DescribeClusterRequest {
  readonly includeClusterAuthorizedOperations: boolean
  readonly endpointType: number
  readonly includeFencedBrokers: boolean
}

export interface DescribeClusterResponseDescribeClusterBroker {
  readonly brokerId: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
  readonly isFenced: boolean
}

export interface DescribeClusterResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly endpointType: number
  readonly clusterId: string
  readonly controllerId: number
  readonly brokers: readonly DescribeClusterResponseDescribeClusterBroker[]
  readonly clusterAuthorizedOperations: number
}

export interface DescribeProducersRequestTopicRequest {
  readonly name: string
  readonly partitionIndexes: readonly number[]
}

export interface DescribeProducersRequest {
  readonly topics: readonly DescribeProducersRequestTopicRequest[]
}

export interface DescribeProducersResponseProducerState {
  readonly producerId: number
  readonly producerEpoch: number
  readonly lastSequence: number
  readonly lastTimestamp: number
  readonly coordinatorEpoch: number
  readonly currentTxnStartOffset: number
}

export interface DescribeProducersResponsePartitionResponse {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly activeProducers: readonly DescribeProducersResponseProducerState[]
}

export interface DescribeProducersResponseTopicResponse {
  readonly name: string
  readonly partitions: readonly DescribeProducersResponsePartitionResponse[]
}

export interface DescribeProducersResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly DescribeProducersResponseTopicResponse[]
}

export interface BrokerRegistrationRequestListener {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly securityProtocol: number
}

export interface BrokerRegistrationRequestFeature {
  readonly name: string
  readonly minSupportedVersion: number
  readonly maxSupportedVersion: number
}

export interface BrokerRegistrationRequest {
  readonly brokerId: number
  readonly clusterId: string
  readonly incarnationId: Uuid
  readonly listeners: readonly BrokerRegistrationRequestListener[]
  readonly features: readonly BrokerRegistrationRequestFeature[]
  readonly rack: string | null
  readonly isMigratingZkBroker: boolean
  readonly logDirs: readonly Uuid[]
  readonly previousBrokerEpoch: number
}

export interface BrokerRegistrationResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly brokerEpoch: number
}

export interface BrokerHeartbeatRequest {
  readonly brokerId: number
  readonly brokerEpoch: number
  readonly currentMetadataOffset: number
  readonly wantFence: boolean
  readonly wantShutDown: boolean
  readonly offlineLogDirs: readonly Uuid[]
  readonly cordonedLogDirs: readonly Uuid[] | null
}

export interface BrokerHeartbeatResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly isCaughtUp: boolean
  readonly isFenced: boolean
  readonly shouldShutDown: boolean
}

export interface UnregisterBrokerRequest {
  readonly brokerId: number
}

export interface UnregisterBrokerResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface DescribeTransactionsRequest {
  readonly transactionalIds: readonly string[]
}

export interface DescribeTransactionsResponseTopicData {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface DescribeTransactionsResponseTransactionState {
  readonly errorCode: number
  readonly transactionalId: string
  readonly transactionState: string
  readonly transactionTimeoutMs: number
  readonly transactionStartTimeMs: number
  readonly producerId: number
  readonly producerEpoch: number
  readonly topics: readonly DescribeTransactionsResponseTopicData[]
}

export interface DescribeTransactionsResponse {
  readonly throttleTimeMs: number
  readonly transactionStates: readonly DescribeTransactionsResponseTransactionState[]
}

export interface ListTransactionsRequest {
  readonly stateFilters: readonly string[]
  readonly producerIdFilters: readonly number[]
  readonly durationFilter: number
  readonly transactionalIdPattern: string | null
}

export interface ListTransactionsResponseTransactionState {
  readonly transactionalId: string
  readonly producerId: number
  readonly transactionState: string
}

export interface ListTransactionsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly unknownStateFilters: readonly string[]
  readonly transactionStates: readonly ListTransactionsResponseTransactionState[]
}

export interface AllocateProducerIdsRequest {
  readonly brokerId: number
  readonly brokerEpoch: number
}

export interface AllocateProducerIdsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly producerIdStart: number
  readonly producerIdLen: number
}

export interface ConsumerGroupHeartbeatRequestTopicPartitions {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface ConsumerGroupHeartbeatRequest {
  readonly groupId: string
  readonly memberId: string
  readonly memberEpoch: number
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly rebalanceTimeoutMs: number
  readonly subscribedTopicNames: readonly string[] | null
  readonly subscribedTopicRegex: string | null
  readonly serverAssignor: string | null
  readonly topicPartitions: readonly ConsumerGroupHeartbeatRequestTopicPartitions[] | null
}

export interface ConsumerGroupHeartbeatResponseTopicPartitions {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface ConsumerGroupHeartbeatResponseAssignment {
  readonly topicPartitions: readonly ConsumerGroupHeartbeatResponseTopicPartitions[]
}

export interface ConsumerGroupHeartbeatResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly memberId: string | null
  readonly memberEpoch: number
  readonly heartbeatIntervalMs: number
  readonly assignment: ConsumerGroupHeartbeatResponseAssignment | null
}

export interface ConsumerGroupDescribeRequest {
  readonly groupIds: readonly string[]
  readonly includeAuthorizedOperations: boolean
}

export interface ConsumerGroupDescribeResponseTopicPartitions {
  readonly topicId: Uuid
  readonly topicName: string
  readonly partitions: readonly number[]
}

export interface ConsumerGroupDescribeResponseAssignment {
  readonly topicPartitions: readonly ConsumerGroupDescribeResponseTopicPartitions[]
}

export interface ConsumerGroupDescribeResponseMember {
  readonly memberId: string
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly memberEpoch: number
  readonly clientId: string
  readonly clientHost: string
  readonly subscribedTopicNames: readonly string[]
  readonly subscribedTopicRegex: string | null
  readonly assignment: ConsumerGroupDescribeResponseAssignment
  readonly targetAssignment: ConsumerGroupDescribeResponseAssignment
  readonly memberType: number
}

export interface ConsumerGroupDescribeResponseDescribedGroup {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly groupId: string
  readonly groupState: string
  readonly groupEpoch: number
  readonly assignmentEpoch: number
  readonly assignorName: string
  readonly members: readonly ConsumerGroupDescribeResponseMember[]
  readonly authorizedOperations: number
}

export interface ConsumerGroupDescribeResponse {
  readonly throttleTimeMs: number
  readonly groups: readonly ConsumerGroupDescribeResponseDescribedGroup[]
}

export interface ControllerRegistrationRequestListener {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly securityProtocol: number
}

export interface ControllerRegistrationRequestFeature {
  readonly name: string
  readonly minSupportedVersion: number
  readonly maxSupportedVersion: number
}

export interface ControllerRegistrationRequest {
  readonly controllerId: number
  readonly incarnationId: Uuid
  readonly zkMigrationReady: boolean
  readonly listeners: readonly ControllerRegistrationRequestListener[]
  readonly features: readonly ControllerRegistrationRequestFeature[]
}

export interface ControllerRegistrationResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface GetTelemetrySubscriptionsRequest {
  readonly clientInstanceId: Uuid
}

export interface GetTelemetrySubscriptionsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly clientInstanceId: Uuid
  readonly subscriptionId: number
  readonly acceptedCompressionTypes: readonly number[]
  readonly pushIntervalMs: number
  readonly telemetryMaxBytes: number
  readonly deltaTemporality: boolean
  readonly requestedMetrics: readonly string[]
}

export interface PushTelemetryRequest {
  readonly clientInstanceId: Uuid
  readonly subscriptionId: number
  readonly terminating: boolean
  readonly compressionType: number
  readonly metrics: Buffer
}

export interface PushTelemetryResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
}

export interface AssignReplicasToDirsRequestPartitionData {
  readonly partitionIndex: number
}

export interface AssignReplicasToDirsRequestTopicData {
  readonly topicId: Uuid
  readonly partitions: readonly AssignReplicasToDirsRequestPartitionData[]
}

export interface AssignReplicasToDirsRequestDirectoryData {
  readonly id: Uuid
  readonly topics: readonly AssignReplicasToDirsRequestTopicData[]
}

export interface AssignReplicasToDirsRequest {
  readonly brokerId: number
  readonly brokerEpoch: number
  readonly directories: readonly AssignReplicasToDirsRequestDirectoryData[]
}

export interface AssignReplicasToDirsResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
}

export interface AssignReplicasToDirsResponseTopicData {
  readonly topicId: Uuid
  readonly partitions: readonly AssignReplicasToDirsResponsePartitionData[]
}

export interface AssignReplicasToDirsResponseDirectoryData {
  readonly id: Uuid
  readonly topics: readonly AssignReplicasToDirsResponseTopicData[]
}

export interface AssignReplicasToDirsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly directories: readonly AssignReplicasToDirsResponseDirectoryData[]
}

export interface ListConfigResourcesRequest {
  readonly resourceTypes: readonly number[]
}

export interface ListConfigResourcesResponseConfigResource {
  readonly resourceName: string
  readonly resourceType: number
}

export interface ListConfigResourcesResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly configResources: readonly ListConfigResourcesResponseConfigResource[]
}

export interface DescribeTopicPartitionsRequestTopicRequest {
  readonly name: string
}

export interface DescribeTopicPartitionsRequestCursor {
  readonly topicName: string
  readonly partitionIndex: number
}

export interface DescribeTopicPartitionsRequest {
  readonly topics: readonly DescribeTopicPartitionsRequestTopicRequest[]
  readonly responsePartitionLimit: number
  readonly cursor: DescribeTopicPartitionsRequestCursor | null
}

export interface DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition {
  readonly errorCode: number
  readonly partitionIndex: number
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly replicaNodes: readonly number[]
  readonly isrNodes: readonly number[]
  readonly eligibleLeaderReplicas: readonly number[] | null
  readonly lastKnownElr: readonly number[] | null
  readonly offlineReplicas: readonly number[]
}

export interface DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic {
  readonly errorCode: number
  readonly name: string | null
  readonly topicId: Uuid
  readonly isInternal: boolean
  readonly partitions: readonly DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition[]
  readonly topicAuthorizedOperations: number
}

export interface DescribeTopicPartitionsResponseCursor {
  readonly topicName: string
  readonly partitionIndex: number
}

export interface DescribeTopicPartitionsResponse {
  readonly throttleTimeMs: number
  readonly topics: readonly DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic[]
  readonly nextCursor: DescribeTopicPartitionsResponseCursor | null
}

export interface ShareGroupHeartbeatRequest {
  readonly groupId: string
  readonly memberId: string
  readonly memberEpoch: number
  readonly rackId: string | null
  readonly subscribedTopicNames: readonly string[] | null
}

export interface ShareGroupHeartbeatResponseTopicPartitions {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface ShareGroupHeartbeatResponseAssignment {
  readonly topicPartitions: readonly ShareGroupHeartbeatResponseTopicPartitions[]
}

export interface ShareGroupHeartbeatResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly memberId: string | null
  readonly memberEpoch: number
  readonly heartbeatIntervalMs: number
  readonly assignment: ShareGroupHeartbeatResponseAssignment | null
}

export interface ShareGroupDescribeRequest {
  readonly groupIds: readonly string[]
  readonly includeAuthorizedOperations: boolean
}

export interface ShareGroupDescribeResponseTopicPartitions {
  readonly topicId: Uuid
  readonly topicName: string
  readonly partitions: readonly number[]
}

export interface ShareGroupDescribeResponseAssignment {
  readonly topicPartitions: readonly ShareGroupDescribeResponseTopicPartitions[]
}

export interface ShareGroupDescribeResponseMember {
  readonly memberId: string
  readonly rackId: string | null
  readonly memberEpoch: number
  readonly clientId: string
  readonly clientHost: string
  readonly subscribedTopicNames: readonly string[]
  readonly assignment: ShareGroupDescribeResponseAssignment
}

export interface ShareGroupDescribeResponseDescribedGroup {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly groupId: string
  readonly groupState: string
  readonly groupEpoch: number
  readonly assignmentEpoch: number
  readonly assignorName: string
  readonly members: readonly ShareGroupDescribeResponseMember[]
  readonly authorizedOperations: number
}

export interface ShareGroupDescribeResponse {
  readonly throttleTimeMs: number
  readonly groups: readonly ShareGroupDescribeResponseDescribedGroup[]
}

export interface ShareFetchRequestAcknowledgementBatch {
  readonly firstOffset: number
  readonly lastOffset: number
  readonly acknowledgeTypes: readonly number[]
}

export interface ShareFetchRequestFetchPartition {
  readonly partitionIndex: number
  readonly acknowledgementBatches: readonly ShareFetchRequestAcknowledgementBatch[]
}

export interface ShareFetchRequestFetchTopic {
  readonly topicId: Uuid
  readonly partitions: readonly ShareFetchRequestFetchPartition[]
}

export interface ShareFetchRequestForgottenTopic {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface ShareFetchRequest {
  readonly groupId: string | null
  readonly memberId: string | null
  readonly shareSessionEpoch: number
  readonly maxWaitMs: number
  readonly minBytes: number
  readonly maxBytes: number
  readonly maxRecords: number
  readonly batchSize: number
  readonly shareAcquireMode: number
  readonly isRenewAck: boolean
  readonly topics: readonly ShareFetchRequestFetchTopic[]
  readonly forgottenTopicsData: readonly ShareFetchRequestForgottenTopic[]
}

export interface ShareFetchResponseLeaderIdAndEpoch {
  readonly leaderId: number
  readonly leaderEpoch: number
}

export interface ShareFetchResponseAcquiredRecords {
  readonly firstOffset: number
  readonly lastOffset: number
  readonly deliveryCount: number
}

export interface ShareFetchResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly acknowledgeErrorCode: number
  readonly acknowledgeErrorMessage: string | null
  readonly currentLeader: ShareFetchResponseLeaderIdAndEpoch
  readonly records: Buffer
  readonly acquiredRecords: readonly ShareFetchResponseAcquiredRecords[]
}

export interface ShareFetchResponseShareFetchableTopicResponse {
  readonly topicId: Uuid
  readonly partitions: readonly ShareFetchResponsePartitionData[]
}

export interface ShareFetchResponseNodeEndpoint {
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
}

export interface ShareFetchResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly acquisitionLockTimeoutMs: number
  readonly responses: readonly ShareFetchResponseShareFetchableTopicResponse[]
  readonly nodeEndpoints: readonly ShareFetchResponseNodeEndpoint[]
}

export interface ShareAcknowledgeRequestAcknowledgementBatch {
  readonly firstOffset: number
  readonly lastOffset: number
  readonly acknowledgeTypes: readonly number[]
}

export interface ShareAcknowledgeRequestAcknowledgePartition {
  readonly partitionIndex: number
  readonly acknowledgementBatches: readonly ShareAcknowledgeRequestAcknowledgementBatch[]
}

export interface ShareAcknowledgeRequestAcknowledgeTopic {
  readonly topicId: Uuid
  readonly partitions: readonly ShareAcknowledgeRequestAcknowledgePartition[]
}

export interface ShareAcknowledgeRequest {
  readonly groupId: string | null
  readonly memberId: string | null
  readonly shareSessionEpoch: number
  readonly isRenewAck: boolean
  readonly topics: readonly ShareAcknowledgeRequestAcknowledgeTopic[]
}

export interface ShareAcknowledgeResponseLeaderIdAndEpoch {
  readonly leaderId: number
  readonly leaderEpoch: number
}

export interface ShareAcknowledgeResponsePartitionData {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly currentLeader: ShareAcknowledgeResponseLeaderIdAndEpoch
}

export interface ShareAcknowledgeResponseShareAcknowledgeTopicResponse {
  readonly topicId: Uuid
  readonly partitions: readonly ShareAcknowledgeResponsePartitionData[]
}

export interface ShareAcknowledgeResponseNodeEndpoint {
  readonly nodeId: number
  readonly host: string
  readonly port: number
  readonly rack: string | null
}

export interface ShareAcknowledgeResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly acquisitionLockTimeoutMs: number
  readonly responses: readonly ShareAcknowledgeResponseShareAcknowledgeTopicResponse[]
  readonly nodeEndpoints: readonly ShareAcknowledgeResponseNodeEndpoint[]
}

export interface AddRaftVoterRequestListener {
  readonly name: string
  readonly host: string
  readonly port: number
}

export interface AddRaftVoterRequest {
  readonly clusterId: string | null
  readonly timeoutMs: number
  readonly voterId: number
  readonly voterDirectoryId: Uuid
  readonly listeners: readonly AddRaftVoterRequestListener[]
  readonly ackWhenCommitted: boolean
}

export interface AddRaftVoterResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface RemoveRaftVoterRequest {
  readonly clusterId: string | null
  readonly voterId: number
  readonly voterDirectoryId: Uuid
}

export interface RemoveRaftVoterResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface UpdateRaftVoterRequestListener {
  readonly name: string
  readonly host: string
  readonly port: number
}

export interface UpdateRaftVoterRequestKRaftVersionFeature {
  readonly minSupportedVersion: number
  readonly maxSupportedVersion: number
}

export interface UpdateRaftVoterRequest {
  readonly clusterId: string | null
  readonly currentLeaderEpoch: number
  readonly voterId: number
  readonly voterDirectoryId: Uuid
  readonly listeners: readonly UpdateRaftVoterRequestListener[]
  readonly kRaftVersionFeature: UpdateRaftVoterRequestKRaftVersionFeature
}

export interface UpdateRaftVoterResponseCurrentLeader {
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly host: string
  readonly port: number
}

export interface UpdateRaftVoterResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly currentLeader: UpdateRaftVoterResponseCurrentLeader
}

export interface InitializeShareGroupStateRequestPartitionData {
  readonly partition: number
  readonly stateEpoch: number
  readonly startOffset: number
}

export interface InitializeShareGroupStateRequestInitializeStateData {
  readonly topicId: Uuid
  readonly partitions: readonly InitializeShareGroupStateRequestPartitionData[]
}

export interface InitializeShareGroupStateRequest {
  readonly groupId: string
  readonly topics: readonly InitializeShareGroupStateRequestInitializeStateData[]
}

export interface InitializeShareGroupStateResponsePartitionResult {
  readonly partition: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface InitializeShareGroupStateResponseInitializeStateResult {
  readonly topicId: Uuid
  readonly partitions: readonly InitializeShareGroupStateResponsePartitionResult[]
}

export interface InitializeShareGroupStateResponse {
  readonly results: readonly InitializeShareGroupStateResponseInitializeStateResult[]
}

export interface ReadShareGroupStateRequestPartitionData {
  readonly partition: number
  readonly leaderEpoch: number
}

export interface ReadShareGroupStateRequestReadStateData {
  readonly topicId: Uuid
  readonly partitions: readonly ReadShareGroupStateRequestPartitionData[]
}

export interface ReadShareGroupStateRequest {
  readonly groupId: string
  readonly topics: readonly ReadShareGroupStateRequestReadStateData[]
}

export interface ReadShareGroupStateResponseStateBatch {
  readonly firstOffset: number
  readonly lastOffset: number
  readonly deliveryState: number
  readonly deliveryCount: number
}

export interface ReadShareGroupStateResponsePartitionResult {
  readonly partition: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly stateEpoch: number
  readonly startOffset: number
  readonly stateBatches: readonly ReadShareGroupStateResponseStateBatch[]
}

export interface ReadShareGroupStateResponseReadStateResult {
  readonly topicId: Uuid
  readonly partitions: readonly ReadShareGroupStateResponsePartitionResult[]
}

export interface ReadShareGroupStateResponse {
  readonly results: readonly ReadShareGroupStateResponseReadStateResult[]
}

export interface WriteShareGroupStateRequestStateBatch {
  readonly firstOffset: number
  readonly lastOffset: number
  readonly deliveryState: number
  readonly deliveryCount: number
}

export interface WriteShareGroupStateRequestPartitionData {
  readonly partition: number
  readonly stateEpoch: number
  readonly leaderEpoch: number
  readonly startOffset: number
  readonly deliveryCompleteCount: number
  readonly stateBatches: readonly WriteShareGroupStateRequestStateBatch[]
}

export interface WriteShareGroupStateRequestWriteStateData {
  readonly topicId: Uuid
  readonly partitions: readonly WriteShareGroupStateRequestPartitionData[]
}

export interface WriteShareGroupStateRequest {
  readonly groupId: string
  readonly topics: readonly WriteShareGroupStateRequestWriteStateData[]
}

export interface WriteShareGroupStateResponsePartitionResult {
  readonly partition: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface WriteShareGroupStateResponseWriteStateResult {
  readonly topicId: Uuid
  readonly partitions: readonly WriteShareGroupStateResponsePartitionResult[]
}

export interface WriteShareGroupStateResponse {
  readonly results: readonly WriteShareGroupStateResponseWriteStateResult[]
}

export interface DeleteShareGroupStateRequestPartitionData {
  readonly partition: number
}

export interface DeleteShareGroupStateRequestDeleteStateData {
  readonly topicId: Uuid
  readonly partitions: readonly DeleteShareGroupStateRequestPartitionData[]
}

export interface DeleteShareGroupStateRequest {
  readonly groupId: string
  readonly topics: readonly DeleteShareGroupStateRequestDeleteStateData[]
}

export interface DeleteShareGroupStateResponsePartitionResult {
  readonly partition: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface DeleteShareGroupStateResponseDeleteStateResult {
  readonly topicId: Uuid
  readonly partitions: readonly DeleteShareGroupStateResponsePartitionResult[]
}

export interface DeleteShareGroupStateResponse {
  readonly results: readonly DeleteShareGroupStateResponseDeleteStateResult[]
}

export interface ReadShareGroupStateSummaryRequestPartitionData {
  readonly partition: number
  readonly leaderEpoch: number
}

export interface ReadShareGroupStateSummaryRequestReadStateSummaryData {
  readonly topicId: Uuid
  readonly partitions: readonly ReadShareGroupStateSummaryRequestPartitionData[]
}

export interface ReadShareGroupStateSummaryRequest {
  readonly groupId: string
  readonly topics: readonly ReadShareGroupStateSummaryRequestReadStateSummaryData[]
}

export interface ReadShareGroupStateSummaryResponsePartitionResult {
  readonly partition: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly stateEpoch: number
  readonly leaderEpoch: number
  readonly startOffset: number
  readonly deliveryCompleteCount: number
}

export interface ReadShareGroupStateSummaryResponseReadStateSummaryResult {
  readonly topicId: Uuid
  readonly partitions: readonly ReadShareGroupStateSummaryResponsePartitionResult[]
}

export interface ReadShareGroupStateSummaryResponse {
  readonly results: readonly ReadShareGroupStateSummaryResponseReadStateSummaryResult[]
}

export interface StreamsGroupHeartbeatRequestKeyValue {
  readonly key: string
  readonly value: string
}

export interface StreamsGroupHeartbeatRequestTopicInfo {
  readonly name: string
  readonly partitions: number
  readonly replicationFactor: number
  readonly topicConfigs: readonly StreamsGroupHeartbeatRequestKeyValue[]
}

export interface StreamsGroupHeartbeatRequestCopartitionGroup {
  readonly sourceTopics: readonly number[]
  readonly sourceTopicRegex: readonly number[]
  readonly repartitionSourceTopics: readonly number[]
}

export interface StreamsGroupHeartbeatRequestSubtopology {
  readonly subtopologyId: string
  readonly sourceTopics: readonly string[]
  readonly sourceTopicRegex: readonly string[]
  readonly stateChangelogTopics: readonly StreamsGroupHeartbeatRequestTopicInfo[]
  readonly repartitionSinkTopics: readonly string[]
  readonly repartitionSourceTopics: readonly StreamsGroupHeartbeatRequestTopicInfo[]
  readonly copartitionGroups: readonly StreamsGroupHeartbeatRequestCopartitionGroup[]
}

export interface StreamsGroupHeartbeatRequestTopology {
  readonly epoch: number
  readonly subtopologies: readonly StreamsGroupHeartbeatRequestSubtopology[]
}

export interface StreamsGroupHeartbeatRequestTaskIds {
  readonly subtopologyId: string
  readonly partitions: readonly number[]
}

export interface StreamsGroupHeartbeatRequestEndpoint {
  readonly host: string
  readonly port: number
}

export interface StreamsGroupHeartbeatRequestTaskOffset {
  readonly subtopologyId: string
  readonly partition: number
  readonly offset: number
}

export interface StreamsGroupHeartbeatRequest {
  readonly groupId: string
  readonly memberId: string
  readonly memberEpoch: number
  readonly endpointInformationEpoch: number
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly rebalanceTimeoutMs: number
  readonly topology: StreamsGroupHeartbeatRequestTopology | null
  readonly activeTasks: readonly StreamsGroupHeartbeatRequestTaskIds[] | null
  readonly standbyTasks: readonly StreamsGroupHeartbeatRequestTaskIds[] | null
  readonly warmupTasks: readonly StreamsGroupHeartbeatRequestTaskIds[] | null
  readonly processId: string | null
  readonly userEndpoint: StreamsGroupHeartbeatRequestEndpoint | null
  readonly clientTags: readonly StreamsGroupHeartbeatRequestKeyValue[] | null
  readonly taskOffsets: readonly StreamsGroupHeartbeatRequestTaskOffset[] | null
  readonly taskEndOffsets: readonly StreamsGroupHeartbeatRequestTaskOffset[] | null
  readonly shutdownApplication: boolean
}

export interface StreamsGroupHeartbeatResponseStatus {
  readonly statusCode: number
  readonly statusDetail: string
}

export interface StreamsGroupHeartbeatResponseTaskIds {
  readonly subtopologyId: string
  readonly partitions: readonly number[]
}

export interface StreamsGroupHeartbeatResponseEndpoint {
  readonly host: string
  readonly port: number
}

export interface StreamsGroupHeartbeatResponseTopicPartition {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface StreamsGroupHeartbeatResponseEndpointToPartitions {
  readonly userEndpoint: StreamsGroupHeartbeatResponseEndpoint
  readonly activePartitions: readonly StreamsGroupHeartbeatResponseTopicPartition[]
  readonly standbyPartitions: readonly StreamsGroupHeartbeatResponseTopicPartition[]
}

export interface StreamsGroupHeartbeatResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly memberId: string
  readonly memberEpoch: number
  readonly heartbeatIntervalMs: number
  readonly acceptableRecoveryLagLegacy: number
  readonly taskOffsetIntervalMs: number
  readonly acceptableRecoveryLag: number
  readonly status: readonly StreamsGroupHeartbeatResponseStatus[] | null
  readonly activeTasks: readonly StreamsGroupHeartbeatResponseTaskIds[] | null
  readonly standbyTasks: readonly StreamsGroupHeartbeatResponseTaskIds[] | null
  readonly warmupTasks: readonly StreamsGroupHeartbeatResponseTaskIds[] | null
  readonly topologyDescriptionRequired: boolean
  readonly endpointInformationEpoch: number
  readonly partitionsByUserEndpoint: readonly StreamsGroupHeartbeatResponseEndpointToPartitions[] | null
}

export interface StreamsGroupDescribeRequest {
  readonly groupIds: readonly string[]
  readonly includeAuthorizedOperations: boolean
  readonly includeTopologyDescription: boolean
}

export interface StreamsGroupDescribeResponseKeyValue {
  readonly key: string
  readonly value: string
}

export interface StreamsGroupDescribeResponseTopicInfo {
  readonly name: string
  readonly partitions: number
  readonly replicationFactor: number
  readonly topicConfigs: readonly StreamsGroupDescribeResponseKeyValue[]
}

export interface StreamsGroupDescribeResponseSubtopology {
  readonly subtopologyId: string
  readonly sourceTopics: readonly string[]
  readonly repartitionSinkTopics: readonly string[]
  readonly stateChangelogTopics: readonly StreamsGroupDescribeResponseTopicInfo[]
  readonly repartitionSourceTopics: readonly StreamsGroupDescribeResponseTopicInfo[]
}

export interface StreamsGroupDescribeResponseTopology {
  readonly epoch: number
  readonly subtopologies: readonly StreamsGroupDescribeResponseSubtopology[] | null
}

export interface StreamsGroupDescribeResponseEndpoint {
  readonly host: string
  readonly port: number
}

export interface StreamsGroupDescribeResponseTaskOffset {
  readonly subtopologyId: string
  readonly partition: number
  readonly offset: number
}

export interface StreamsGroupDescribeResponseTaskIds {
  readonly subtopologyId: string
  readonly partitions: readonly number[]
}

export interface StreamsGroupDescribeResponseAssignment {
  readonly activeTasks: readonly StreamsGroupDescribeResponseTaskIds[]
  readonly standbyTasks: readonly StreamsGroupDescribeResponseTaskIds[]
  readonly warmupTasks: readonly StreamsGroupDescribeResponseTaskIds[]
}

export interface StreamsGroupDescribeResponseMember {
  readonly memberId: string
  readonly memberEpoch: number
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly topologyEpoch: number
  readonly processId: string
  readonly userEndpoint: StreamsGroupDescribeResponseEndpoint | null
  readonly clientTags: readonly StreamsGroupDescribeResponseKeyValue[]
  readonly taskOffsets: readonly StreamsGroupDescribeResponseTaskOffset[]
  readonly taskEndOffsets: readonly StreamsGroupDescribeResponseTaskOffset[]
  readonly assignment: StreamsGroupDescribeResponseAssignment
  readonly targetAssignment: StreamsGroupDescribeResponseAssignment
  readonly isClassic: boolean
}

export interface StreamsGroupDescribeResponseTopologyDescriptionNode {
  readonly name: string
  readonly nodeType: number
  readonly sourceTopics: readonly string[]
  readonly sinkTopic: string | null
  readonly stores: readonly string[]
  readonly successors: readonly string[]
}

export interface StreamsGroupDescribeResponseTopologyDescriptionSubtopology {
  readonly subtopologyId: string
  readonly nodes: readonly StreamsGroupDescribeResponseTopologyDescriptionNode[]
}

export interface StreamsGroupDescribeResponseTopologyDescriptionGlobalStore {
  readonly source: StreamsGroupDescribeResponseTopologyDescriptionNode
  readonly processor: StreamsGroupDescribeResponseTopologyDescriptionNode
}

export interface StreamsGroupDescribeResponseTopologyDescription {
  readonly subtopologies: readonly StreamsGroupDescribeResponseTopologyDescriptionSubtopology[]
  readonly globalStores: readonly StreamsGroupDescribeResponseTopologyDescriptionGlobalStore[]
}

export interface StreamsGroupDescribeResponseDescribedGroup {
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly groupId: string
  readonly groupState: string
  readonly groupEpoch: number
  readonly assignmentEpoch: number
  readonly topology: StreamsGroupDescribeResponseTopology | null
  readonly members: readonly StreamsGroupDescribeResponseMember[]
  readonly authorizedOperations: number
  readonly topologyDescription: StreamsGroupDescribeResponseTopologyDescription | null
  readonly topologyDescriptionStatus: number
  readonly assignorName: string | null
}

export interface StreamsGroupDescribeResponse {
  readonly throttleTimeMs: number
  readonly groups: readonly StreamsGroupDescribeResponseDescribedGroup[]
}

export interface DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestTopic {
  readonly topicName: string
  readonly partitions: readonly number[]
}

export interface DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestGroup {
  readonly groupId: string
  readonly topics: readonly DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestTopic[] | null
}

export interface DescribeShareGroupOffsetsRequest {
  readonly groups: readonly DescribeShareGroupOffsetsRequestDescribeShareGroupOffsetsRequestGroup[]
}

export interface DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponsePartition {
  readonly partitionIndex: number
  readonly startOffset: number
  readonly leaderEpoch: number
  readonly lag: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseTopic {
  readonly topicName: string
  readonly topicId: Uuid
  readonly partitions: readonly DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponsePartition[]
}

export interface DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseGroup {
  readonly groupId: string
  readonly topics: readonly DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseTopic[]
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface DescribeShareGroupOffsetsResponse {
  readonly throttleTimeMs: number
  readonly groups: readonly DescribeShareGroupOffsetsResponseDescribeShareGroupOffsetsResponseGroup[]
}

export interface AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestPartition {
  readonly partitionIndex: number
  readonly startOffset: number
}

export interface AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestTopic {
  readonly topicName: string
  readonly partitions: readonly AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestPartition[]
}

export interface AlterShareGroupOffsetsRequest {
  readonly groupId: string
  readonly topics: readonly AlterShareGroupOffsetsRequestAlterShareGroupOffsetsRequestTopic[]
}

export interface AlterShareGroupOffsetsResponseAlterShareGroupOffsetsResponsePartition {
  readonly partitionIndex: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface AlterShareGroupOffsetsResponseAlterShareGroupOffsetsResponseTopic {
  readonly topicName: string
  readonly topicId: Uuid
  readonly partitions: readonly AlterShareGroupOffsetsResponseAlterShareGroupOffsetsResponsePartition[]
}

export interface AlterShareGroupOffsetsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly responses: readonly AlterShareGroupOffsetsResponseAlterShareGroupOffsetsResponseTopic[]
}

export interface DeleteShareGroupOffsetsRequestDeleteShareGroupOffsetsRequestTopic {
  readonly topicName: string
}

export interface DeleteShareGroupOffsetsRequest {
  readonly groupId: string
  readonly topics: readonly DeleteShareGroupOffsetsRequestDeleteShareGroupOffsetsRequestTopic[]
}

export interface DeleteShareGroupOffsetsResponseDeleteShareGroupOffsetsResponseTopic {
  readonly topicName: string
  readonly topicId: Uuid
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface DeleteShareGroupOffsetsResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
  readonly responses: readonly DeleteShareGroupOffsetsResponseDeleteShareGroupOffsetsResponseTopic[]
}

export interface StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode {
  readonly name: string
  readonly nodeType: number
  readonly sourceTopics: readonly string[]
  readonly sinkTopic: string | null
  readonly stores: readonly string[]
  readonly successors: readonly string[]
}

export interface StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology {
  readonly subtopologyId: string
  readonly nodes: readonly StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode[]
}

export interface StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore {
  readonly source: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode
  readonly processor: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode
}

export interface StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription {
  readonly subtopologies: readonly StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology[]
  readonly globalStores: readonly StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore[]
}

export interface StreamsGroupTopologyDescriptionUpdateRequest {
  readonly groupId: string
  readonly memberId: string
  readonly topologyEpoch: number
  readonly topologyDescription: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription
}

export interface StreamsGroupTopologyDescriptionUpdateResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface UnregisterControllerRequest {
  readonly controllerId: number
}

export interface UnregisterControllerResponse {
  readonly throttleTimeMs: number
  readonly errorCode: number
  readonly errorMessage: string | null
}

export interface Requests {
  readonly Produce: ProduceRequest
  readonly Fetch: FetchRequest
  readonly ListOffsets: ListOffsetsRequest
  readonly Metadata: MetadataRequest
  readonly OffsetCommit: OffsetCommitRequest
  readonly OffsetFetch: OffsetFetchRequest
  readonly FindCoordinator: FindCoordinatorRequest
  readonly JoinGroup: JoinGroupRequest
  readonly Heartbeat: HeartbeatRequest
  readonly LeaveGroup: LeaveGroupRequest
  readonly SyncGroup: SyncGroupRequest
  readonly DescribeGroups: DescribeGroupsRequest
  readonly ListGroups: ListGroupsRequest
  readonly SaslHandshake: SaslHandshakeRequest
  readonly ApiVersions: ApiVersionsRequest
  readonly CreateTopics: CreateTopicsRequest
  readonly DeleteTopics: DeleteTopicsRequest
  readonly DeleteRecords: DeleteRecordsRequest
  readonly InitProducerId: InitProducerIdRequest
  readonly OffsetForLeaderEpoch: OffsetForLeaderEpochRequest
  readonly AddPartitionsToTxn: AddPartitionsToTxnRequest
  readonly AddOffsetsToTxn: AddOffsetsToTxnRequest
  readonly EndTxn: EndTxnRequest
  readonly WriteTxnMarkers: WriteTxnMarkersRequest
  readonly TxnOffsetCommit: TxnOffsetCommitRequest
  readonly DescribeAcls: DescribeAclsRequest
  readonly CreateAcls: CreateAclsRequest
  readonly DeleteAcls: DeleteAclsRequest
  readonly DescribeConfigs: DescribeConfigsRequest
  readonly AlterConfigs: AlterConfigsRequest
  readonly AlterReplicaLogDirs: AlterReplicaLogDirsRequest
  readonly DescribeLogDirs: DescribeLogDirsRequest
  readonly SaslAuthenticate: SaslAuthenticateRequest
  readonly CreatePartitions: CreatePartitionsRequest
  readonly CreateDelegationToken: CreateDelegationTokenRequest
  readonly RenewDelegationToken: RenewDelegationTokenRequest
  readonly ExpireDelegationToken: ExpireDelegationTokenRequest
  readonly DescribeDelegationToken: DescribeDelegationTokenRequest
  readonly DeleteGroups: DeleteGroupsRequest
  readonly ElectLeaders: ElectLeadersRequest
  readonly IncrementalAlterConfigs: IncrementalAlterConfigsRequest
  readonly AlterPartitionReassignments: AlterPartitionReassignmentsRequest
  readonly ListPartitionReassignments: ListPartitionReassignmentsRequest
  readonly OffsetDelete: OffsetDeleteRequest
  readonly DescribeClientQuotas: DescribeClientQuotasRequest
  readonly AlterClientQuotas: AlterClientQuotasRequest
  readonly DescribeUserScramCredentials: DescribeUserScramCredentialsRequest
  readonly AlterUserScramCredentials: AlterUserScramCredentialsRequest
  readonly Vote: VoteRequest
  readonly BeginQuorumEpoch: BeginQuorumEpochRequest
  readonly EndQuorumEpoch: EndQuorumEpochRequest
  readonly DescribeQuorum: DescribeQuorumRequest
  readonly AlterPartition: AlterPartitionRequest
  readonly UpdateFeatures: UpdateFeaturesRequest
  readonly Envelope: EnvelopeRequest
  readonly FetchSnapshot: FetchSnapshotRequest
  readonly DescribeCluster: DescribeClusterRequest
  readonly DescribeProducers: DescribeProducersRequest
  readonly BrokerRegistration: BrokerRegistrationRequest
  readonly BrokerHeartbeat: BrokerHeartbeatRequest
  readonly UnregisterBroker: UnregisterBrokerRequest
  readonly DescribeTransactions: DescribeTransactionsRequest
  readonly ListTransactions: ListTransactionsRequest
  readonly AllocateProducerIds: AllocateProducerIdsRequest
  readonly ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest
  readonly ConsumerGroupDescribe: ConsumerGroupDescribeRequest
  readonly ControllerRegistration: ControllerRegistrationRequest
  readonly GetTelemetrySubscriptions: GetTelemetrySubscriptionsRequest
  readonly PushTelemetry: PushTelemetryRequest
  readonly AssignReplicasToDirs: AssignReplicasToDirsRequest
  readonly ListConfigResources: ListConfigResourcesRequest
  readonly DescribeTopicPartitions: DescribeTopicPartitionsRequest
  readonly ShareGroupHeartbeat: ShareGroupHeartbeatRequest
  readonly ShareGroupDescribe: ShareGroupDescribeRequest
  readonly ShareFetch: ShareFetchRequest
  readonly ShareAcknowledge: ShareAcknowledgeRequest
  readonly AddRaftVoter: AddRaftVoterRequest
  readonly RemoveRaftVoter: RemoveRaftVoterRequest
  readonly UpdateRaftVoter: UpdateRaftVoterRequest
  readonly InitializeShareGroupState: InitializeShareGroupStateRequest
  readonly ReadShareGroupState: ReadShareGroupStateRequest
  readonly WriteShareGroupState: WriteShareGroupStateRequest
  readonly DeleteShareGroupState: DeleteShareGroupStateRequest
  readonly ReadShareGroupStateSummary: ReadShareGroupStateSummaryRequest
  readonly StreamsGroupHeartbeat: StreamsGroupHeartbeatRequest
  readonly StreamsGroupDescribe: StreamsGroupDescribeRequest
  readonly DescribeShareGroupOffsets: DescribeShareGroupOffsetsRequest
  readonly AlterShareGroupOffsets: AlterShareGroupOffsetsRequest
  readonly DeleteShareGroupOffsets: DeleteShareGroupOffsetsRequest
  readonly StreamsGroupTopologyDescriptionUpdate: StreamsGroupTopologyDescriptionUpdateRequest
  readonly UnregisterController: UnregisterControllerRequest
}

export interface Responses {
  readonly Produce: ProduceResponse
  readonly Fetch: FetchResponse
  readonly ListOffsets: ListOffsetsResponse
  readonly Metadata: MetadataResponse
  readonly OffsetCommit: OffsetCommitResponse
  readonly OffsetFetch: OffsetFetchResponse
  readonly FindCoordinator: FindCoordinatorResponse
  readonly JoinGroup: JoinGroupResponse
  readonly Heartbeat: HeartbeatResponse
  readonly LeaveGroup: LeaveGroupResponse
  readonly SyncGroup: SyncGroupResponse
  readonly DescribeGroups: DescribeGroupsResponse
  readonly ListGroups: ListGroupsResponse
  readonly SaslHandshake: SaslHandshakeResponse
  readonly ApiVersions: ApiVersionsResponse
  readonly CreateTopics: CreateTopicsResponse
  readonly DeleteTopics: DeleteTopicsResponse
  readonly DeleteRecords: DeleteRecordsResponse
  readonly InitProducerId: InitProducerIdResponse
  readonly OffsetForLeaderEpoch: OffsetForLeaderEpochResponse
  readonly AddPartitionsToTxn: AddPartitionsToTxnResponse
  readonly AddOffsetsToTxn: AddOffsetsToTxnResponse
  readonly EndTxn: EndTxnResponse
  readonly WriteTxnMarkers: WriteTxnMarkersResponse
  readonly TxnOffsetCommit: TxnOffsetCommitResponse
  readonly DescribeAcls: DescribeAclsResponse
  readonly CreateAcls: CreateAclsResponse
  readonly DeleteAcls: DeleteAclsResponse
  readonly DescribeConfigs: DescribeConfigsResponse
  readonly AlterConfigs: AlterConfigsResponse
  readonly AlterReplicaLogDirs: AlterReplicaLogDirsResponse
  readonly DescribeLogDirs: DescribeLogDirsResponse
  readonly SaslAuthenticate: SaslAuthenticateResponse
  readonly CreatePartitions: CreatePartitionsResponse
  readonly CreateDelegationToken: CreateDelegationTokenResponse
  readonly RenewDelegationToken: RenewDelegationTokenResponse
  readonly ExpireDelegationToken: ExpireDelegationTokenResponse
  readonly DescribeDelegationToken: DescribeDelegationTokenResponse
  readonly DeleteGroups: DeleteGroupsResponse
  readonly ElectLeaders: ElectLeadersResponse
  readonly IncrementalAlterConfigs: IncrementalAlterConfigsResponse
  readonly AlterPartitionReassignments: AlterPartitionReassignmentsResponse
  readonly ListPartitionReassignments: ListPartitionReassignmentsResponse
  readonly OffsetDelete: OffsetDeleteResponse
  readonly DescribeClientQuotas: DescribeClientQuotasResponse
  readonly AlterClientQuotas: AlterClientQuotasResponse
  readonly DescribeUserScramCredentials: DescribeUserScramCredentialsResponse
  readonly AlterUserScramCredentials: AlterUserScramCredentialsResponse
  readonly Vote: VoteResponse
  readonly BeginQuorumEpoch: BeginQuorumEpochResponse
  readonly EndQuorumEpoch: EndQuorumEpochResponse
  readonly DescribeQuorum: DescribeQuorumResponse
  readonly AlterPartition: AlterPartitionResponse
  readonly UpdateFeatures: UpdateFeaturesResponse
  readonly Envelope: EnvelopeResponse
  readonly FetchSnapshot: FetchSnapshotResponse
  readonly DescribeCluster: DescribeClusterResponse
  readonly DescribeProducers: DescribeProducersResponse
  readonly BrokerRegistration: BrokerRegistrationResponse
  readonly BrokerHeartbeat: BrokerHeartbeatResponse
  readonly UnregisterBroker: UnregisterBrokerResponse
  readonly DescribeTransactions: DescribeTransactionsResponse
  readonly ListTransactions: ListTransactionsResponse
  readonly AllocateProducerIds: AllocateProducerIdsResponse
  readonly ConsumerGroupHeartbeat: ConsumerGroupHeartbeatResponse
  readonly ConsumerGroupDescribe: ConsumerGroupDescribeResponse
  readonly ControllerRegistration: ControllerRegistrationResponse
  readonly GetTelemetrySubscriptions: GetTelemetrySubscriptionsResponse
  readonly PushTelemetry: PushTelemetryResponse
  readonly AssignReplicasToDirs: AssignReplicasToDirsResponse
  readonly ListConfigResources: ListConfigResourcesResponse
  readonly DescribeTopicPartitions: DescribeTopicPartitionsResponse
  readonly ShareGroupHeartbeat: ShareGroupHeartbeatResponse
  readonly ShareGroupDescribe: ShareGroupDescribeResponse
  readonly ShareFetch: ShareFetchResponse
  readonly ShareAcknowledge: ShareAcknowledgeResponse
  readonly AddRaftVoter: AddRaftVoterResponse
  readonly RemoveRaftVoter: RemoveRaftVoterResponse
  readonly UpdateRaftVoter: UpdateRaftVoterResponse
  readonly InitializeShareGroupState: InitializeShareGroupStateResponse
  readonly ReadShareGroupState: ReadShareGroupStateResponse
  readonly WriteShareGroupState: WriteShareGroupStateResponse
  readonly DeleteShareGroupState: DeleteShareGroupStateResponse
  readonly ReadShareGroupStateSummary: ReadShareGroupStateSummaryResponse
  readonly StreamsGroupHeartbeat: StreamsGroupHeartbeatResponse
  readonly StreamsGroupDescribe: StreamsGroupDescribeResponse
  readonly DescribeShareGroupOffsets: DescribeShareGroupOffsetsResponse
  readonly AlterShareGroupOffsets: AlterShareGroupOffsetsResponse
  readonly DeleteShareGroupOffsets: DeleteShareGroupOffsetsResponse
  readonly StreamsGroupTopologyDescriptionUpdate: StreamsGroupTopologyDescriptionUpdateResponse
  readonly UnregisterController: UnregisterControllerResponse
}

export interface AbortedTxn {
  readonly producerId: number
  readonly firstOffset: number
  readonly lastOffset: number
  readonly lastStableOffset: number
}

export interface ConsumerProtocolAssignmentTopicPartition {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface ConsumerProtocolAssignment {
  readonly assignedPartitions: readonly ConsumerProtocolAssignmentTopicPartition[]
  readonly userData: Buffer | null
}

export interface ConsumerProtocolSubscriptionTopicPartition {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface ConsumerProtocolSubscription {
  readonly topics: readonly string[]
  readonly userData: Buffer | null
  readonly ownedPartitions: readonly ConsumerProtocolSubscriptionTopicPartition[]
  readonly generationId: number
  readonly rackId: string | null
}

export interface ControlRecordTypeSchema {
  readonly type: number
}

export interface DefaultPrincipalData {
  readonly type: string
  readonly name: string
  readonly tokenAuthenticated: boolean
}

export interface EndTxnMarker {
  readonly coordinatorEpoch: number
}

export interface KRaftVersionRecord {
  readonly version: number
  readonly kRaftVersion: number
}

export interface LeaderChangeMessageVoter {
  readonly voterId: number
  readonly voterDirectoryId: Uuid
}

export interface LeaderChangeMessage {
  readonly version: number
  readonly leaderId: number
  readonly voters: readonly LeaderChangeMessageVoter[]
  readonly grantingVoters: readonly LeaderChangeMessageVoter[]
}

export interface RequestHeader {
  readonly requestApiKey: number
  readonly requestApiVersion: number
  readonly correlationId: number
  readonly clientId: string | null
}

export interface ResponseHeader {
  readonly correlationId: number
}

export interface SnapshotFooterRecord {
  readonly version: number
}

export interface SnapshotHeaderRecord {
  readonly version: number
  readonly lastContainedLogTimestamp: number
}

export interface VotersRecordEndpoint {
  readonly name: string
  readonly host: string
  readonly port: number
}

export interface VotersRecordKRaftVersionFeature {
  readonly minSupportedVersion: number
  readonly maxSupportedVersion: number
}

export interface VotersRecordVoter {
  readonly voterId: number
  readonly voterDirectoryId: Uuid
  readonly endpoints: readonly VotersRecordEndpoint[]
  readonly kRaftVersionFeature: VotersRecordKRaftVersionFeature
}

export interface VotersRecord {
  readonly version: number
  readonly voters: readonly VotersRecordVoter[]
}

export interface AbortTransactionRecord {
  readonly reason: string | null
}

export interface AccessControlEntryRecord {
  readonly id: Uuid
  readonly resourceType: number
  readonly resourceName: string
  readonly patternType: number
  readonly principal: string
  readonly host: string
  readonly operation: number
  readonly permissionType: number
}

export interface BeginTransactionRecord {
  readonly name: string | null
}

export interface BrokerRegistrationChangeRecord {
  readonly brokerId: number
  readonly brokerEpoch: number
  readonly fenced: number
  readonly inControlledShutdown: number
  readonly logDirs: readonly Uuid[]
  readonly cordonedLogDirs: readonly Uuid[] | null
}

export interface ClearElrRecord {
  readonly topicName: string
}

export interface ClientQuotaRecordEntityData {
  readonly entityType: string
  readonly entityName: string | null
}

export interface ClientQuotaRecord {
  readonly entity: readonly ClientQuotaRecordEntityData[]
  readonly key: string
  readonly value: number
  readonly remove: boolean
}

export interface ConfigRecord {
  readonly resourceType: number
  readonly resourceName: string
  readonly name: string
  readonly value: string | null
}

export interface DelegationTokenRecord {
  readonly owner: string
  readonly requester: string
  readonly renewers: readonly string[]
  readonly issueTimestamp: number
  readonly maxTimestamp: number
  readonly expirationTimestamp: number
  readonly tokenId: string
}

export interface EndTransactionRecord {
}

export interface FeatureLevelRecord {
  readonly name: string
  readonly featureLevel: number
}

export interface FenceBrokerRecord {
  readonly id: number
  readonly epoch: number
}

export interface NoOpRecord {
}

export interface PartitionChangeRecord {
  readonly partitionId: number
  readonly topicId: Uuid
  readonly isr: readonly number[] | null
  readonly leader: number
  readonly replicas: readonly number[] | null
  readonly removingReplicas: readonly number[] | null
  readonly addingReplicas: readonly number[] | null
  readonly leaderRecoveryState: number
  readonly directories: readonly Uuid[] | null
  readonly eligibleLeaderReplicas: readonly number[] | null
  readonly lastKnownElr: readonly number[] | null
}

export interface PartitionRecord {
  readonly partitionId: number
  readonly topicId: Uuid
  readonly replicas: readonly number[]
  readonly isr: readonly number[]
  readonly removingReplicas: readonly number[]
  readonly addingReplicas: readonly number[]
  readonly leader: number
  readonly leaderRecoveryState: number
  readonly leaderEpoch: number
  readonly partitionEpoch: number
  readonly directories: readonly Uuid[]
  readonly eligibleLeaderReplicas: readonly number[] | null
  readonly lastKnownElr: readonly number[] | null
}

export interface ProducerIdsRecord {
  readonly brokerId: number
  readonly brokerEpoch: number
  readonly nextProducerId: number
}

export interface RegisterBrokerRecordBrokerEndpoint {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly securityProtocol: number
}

export interface RegisterBrokerRecordBrokerFeature {
  readonly name: string
  readonly minSupportedVersion: number
  readonly maxSupportedVersion: number
}

export interface RegisterBrokerRecord {
  readonly brokerId: number
  readonly isMigratingZkBroker: boolean
  readonly incarnationId: Uuid
  readonly brokerEpoch: number
  readonly endPoints: readonly RegisterBrokerRecordBrokerEndpoint[]
  readonly features: readonly RegisterBrokerRecordBrokerFeature[]
  readonly rack: string | null
  readonly fenced: boolean
  readonly inControlledShutdown: boolean
  readonly logDirs: readonly Uuid[]
  readonly cordonedLogDirs: readonly Uuid[] | null
}

export interface RegisterControllerRecordControllerEndpoint {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly securityProtocol: number
}

export interface RegisterControllerRecordControllerFeature {
  readonly name: string
  readonly minSupportedVersion: number
  readonly maxSupportedVersion: number
}

export interface RegisterControllerRecord {
  readonly controllerId: number
  readonly incarnationId: Uuid
  readonly zkMigrationReady: boolean
  readonly endPoints: readonly RegisterControllerRecordControllerEndpoint[]
  readonly features: readonly RegisterControllerRecordControllerFeature[]
}

export interface RemoveAccessControlEntryRecord {
  readonly id: Uuid
}

export interface RemoveDelegationTokenRecord {
  readonly tokenId: string
}

export interface RemoveTopicRecord {
  readonly topicId: Uuid
}

export interface RemoveUserScramCredentialRecord {
  readonly name: string
  readonly mechanism: number
}

export interface TopicRecord {
  readonly name: string
  readonly topicId: Uuid
}

export interface UnfenceBrokerRecord {
  readonly id: number
  readonly epoch: number
}

export interface UnregisterBrokerRecord {
  readonly brokerId: number
  readonly brokerEpoch: number
}

export interface UnregisterControllerRecord {
  readonly controllerId: number
}

export interface UserScramCredentialRecord {
  readonly name: string
  readonly mechanism: number
  readonly salt: Buffer
  readonly storedKey: Buffer
  readonly serverKey: Buffer
  readonly iterations: number
}

export interface ZkMigrationStateRecord {
  readonly zkMigrationState: number
}

export interface MetadataRecords {
  readonly AbortTransactionRecord: AbortTransactionRecord
  readonly AccessControlEntryRecord: AccessControlEntryRecord
  readonly BeginTransactionRecord: BeginTransactionRecord
  readonly BrokerRegistrationChangeRecord: BrokerRegistrationChangeRecord
  readonly ClearElrRecord: ClearElrRecord
  readonly ClientQuotaRecord: ClientQuotaRecord
  readonly ConfigRecord: ConfigRecord
  readonly DelegationTokenRecord: DelegationTokenRecord
  readonly EndTransactionRecord: EndTransactionRecord
  readonly FeatureLevelRecord: FeatureLevelRecord
  readonly FenceBrokerRecord: FenceBrokerRecord
  readonly NoOpRecord: NoOpRecord
  readonly PartitionChangeRecord: PartitionChangeRecord
  readonly PartitionRecord: PartitionRecord
  readonly ProducerIdsRecord: ProducerIdsRecord
  readonly RegisterBrokerRecord: RegisterBrokerRecord
  readonly RegisterControllerRecord: RegisterControllerRecord
  readonly RemoveAccessControlEntryRecord: RemoveAccessControlEntryRecord
  readonly RemoveDelegationTokenRecord: RemoveDelegationTokenRecord
  readonly RemoveTopicRecord: RemoveTopicRecord
  readonly RemoveUserScramCredentialRecord: RemoveUserScramCredentialRecord
  readonly TopicRecord: TopicRecord
  readonly UnfenceBrokerRecord: UnfenceBrokerRecord
  readonly UnregisterBrokerRecord: UnregisterBrokerRecord
  readonly UnregisterControllerRecord: UnregisterControllerRecord
  readonly UserScramCredentialRecord: UserScramCredentialRecord
  readonly ZkMigrationStateRecord: ZkMigrationStateRecord
}

export interface ConsumerGroupCurrentMemberAssignmentKey {
  readonly groupId: string
  readonly memberId: string
}

export interface ConsumerGroupCurrentMemberAssignmentValueTopicPartitions {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
  readonly assignmentEpochs: readonly number[] | null
}

export interface ConsumerGroupCurrentMemberAssignmentValue {
  readonly memberEpoch: number
  readonly previousMemberEpoch: number
  readonly state: number
  readonly assignedPartitions: readonly ConsumerGroupCurrentMemberAssignmentValueTopicPartitions[]
  readonly partitionsPendingRevocation: readonly ConsumerGroupCurrentMemberAssignmentValueTopicPartitions[]
}

export interface ConsumerGroupMemberMetadataKey {
  readonly groupId: string
  readonly memberId: string
}

export interface ConsumerGroupMemberMetadataValueClassicProtocol {
  readonly name: string
  readonly metadata: Buffer
}

export interface ConsumerGroupMemberMetadataValueClassicMemberMetadata {
  readonly sessionTimeoutMs: number
  readonly supportedProtocols: readonly ConsumerGroupMemberMetadataValueClassicProtocol[]
}

export interface ConsumerGroupMemberMetadataValue {
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly subscribedTopicNames: readonly string[]
  readonly subscribedTopicRegex: string | null
  readonly rebalanceTimeoutMs: number
  readonly serverAssignor: string | null
  readonly classicMemberMetadata: ConsumerGroupMemberMetadataValueClassicMemberMetadata | null
}

export interface ConsumerGroupMetadataKey {
  readonly groupId: string
}

export interface ConsumerGroupMetadataValue {
  readonly epoch: number
  readonly metadataHash: string
}

export interface ConsumerGroupPartitionMetadataKey {
  readonly groupId: string
}

export interface ConsumerGroupPartitionMetadataValuePartitionMetadata {
  readonly partition: number
  readonly racks: readonly string[]
}

export interface ConsumerGroupPartitionMetadataValueTopicMetadata {
  readonly topicId: Uuid
  readonly topicName: string
  readonly numPartitions: number
  readonly partitionMetadata: readonly ConsumerGroupPartitionMetadataValuePartitionMetadata[]
}

export interface ConsumerGroupPartitionMetadataValue {
  readonly topics: readonly ConsumerGroupPartitionMetadataValueTopicMetadata[]
}

export interface ConsumerGroupRegularExpressionKey {
  readonly groupId: string
  readonly regularExpression: string
}

export interface ConsumerGroupRegularExpressionValue {
  readonly topics: readonly string[]
  readonly version: number
  readonly timestamp: number
}

export interface ConsumerGroupTargetAssignmentMemberKey {
  readonly groupId: string
  readonly memberId: string
}

export interface ConsumerGroupTargetAssignmentMemberValueTopicPartition {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface ConsumerGroupTargetAssignmentMemberValue {
  readonly topicPartitions: readonly ConsumerGroupTargetAssignmentMemberValueTopicPartition[]
}

export interface ConsumerGroupTargetAssignmentMetadataKey {
  readonly groupId: string
}

export interface ConsumerGroupTargetAssignmentMetadataValue {
  readonly assignmentEpoch: number
  readonly assignmentTimestamp: number
}

export interface GroupMetadataKey {
  readonly group: string
}

export interface GroupMetadataValueMemberMetadata {
  readonly memberId: string
  readonly groupInstanceId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly rebalanceTimeout: number
  readonly sessionTimeout: number
  readonly subscription: Buffer
  readonly assignment: Buffer
}

export interface GroupMetadataValue {
  readonly protocolType: string
  readonly generation: number
  readonly protocol: string | null
  readonly leader: string | null
  readonly currentStateTimestamp: number
  readonly members: readonly GroupMetadataValueMemberMetadata[]
}

export interface LegacyOffsetCommitKey {
  readonly group: string
  readonly topic: string
  readonly partition: number
}

export interface LegacyOffsetCommitValue {
  readonly offset: number
  readonly metadata: string
  readonly commitTimestamp: number
}

export interface OffsetCommitKey {
  readonly group: string
  readonly topic: string
  readonly partition: number
}

export interface OffsetCommitValue {
  readonly offset: number
  readonly leaderEpoch: number
  readonly metadata: string
  readonly commitTimestamp: number
  readonly expireTimestamp: number
  readonly topicId: Uuid
}

export interface ShareGroupCurrentMemberAssignmentKey {
  readonly groupId: string
  readonly memberId: string
}

export interface ShareGroupCurrentMemberAssignmentValueTopicPartitions {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface ShareGroupCurrentMemberAssignmentValue {
  readonly memberEpoch: number
  readonly previousMemberEpoch: number
  readonly state: number
  readonly assignedPartitions: readonly ShareGroupCurrentMemberAssignmentValueTopicPartitions[]
}

export interface ShareGroupMemberMetadataKey {
  readonly groupId: string
  readonly memberId: string
}

export interface ShareGroupMemberMetadataValue {
  readonly rackId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly subscribedTopicNames: readonly string[]
}

export interface ShareGroupMetadataKey {
  readonly groupId: string
}

export interface ShareGroupMetadataValue {
  readonly epoch: number
  readonly metadataHash: string
}

export interface ShareGroupStatePartitionMetadataKey {
  readonly groupId: string
}

export interface ShareGroupStatePartitionMetadataValueTopicPartitionsInfo {
  readonly topicId: Uuid
  readonly topicName: string
  readonly partitions: readonly number[]
}

export interface ShareGroupStatePartitionMetadataValueTopicInfo {
  readonly topicId: Uuid
  readonly topicName: string
}

export interface ShareGroupStatePartitionMetadataValue {
  readonly initializingTopics: readonly ShareGroupStatePartitionMetadataValueTopicPartitionsInfo[]
  readonly initializedTopics: readonly ShareGroupStatePartitionMetadataValueTopicPartitionsInfo[]
  readonly deletingTopics: readonly ShareGroupStatePartitionMetadataValueTopicInfo[]
}

export interface ShareGroupTargetAssignmentMemberKey {
  readonly groupId: string
  readonly memberId: string
}

export interface ShareGroupTargetAssignmentMemberValueTopicPartition {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface ShareGroupTargetAssignmentMemberValue {
  readonly topicPartitions: readonly ShareGroupTargetAssignmentMemberValueTopicPartition[]
}

export interface ShareGroupTargetAssignmentMetadataKey {
  readonly groupId: string
}

export interface ShareGroupTargetAssignmentMetadataValue {
  readonly assignmentEpoch: number
  readonly assignmentTimestamp: number
}

export interface StreamsGroupCurrentMemberAssignmentKey {
  readonly groupId: string
  readonly memberId: string
}

export interface StreamsGroupCurrentMemberAssignmentValueTaskIds {
  readonly subtopologyId: string
  readonly partitions: readonly number[]
  readonly assignmentEpochs: readonly number[] | null
}

export interface StreamsGroupCurrentMemberAssignmentValue {
  readonly memberEpoch: number
  readonly previousMemberEpoch: number
  readonly state: number
  readonly activeTasks: readonly StreamsGroupCurrentMemberAssignmentValueTaskIds[]
  readonly standbyTasks: readonly StreamsGroupCurrentMemberAssignmentValueTaskIds[]
  readonly warmupTasks: readonly StreamsGroupCurrentMemberAssignmentValueTaskIds[]
  readonly activeTasksPendingRevocation: readonly StreamsGroupCurrentMemberAssignmentValueTaskIds[]
  readonly standbyTasksPendingRevocation: readonly StreamsGroupCurrentMemberAssignmentValueTaskIds[]
  readonly warmupTasksPendingRevocation: readonly StreamsGroupCurrentMemberAssignmentValueTaskIds[]
}

export interface StreamsGroupMemberMetadataKey {
  readonly groupId: string
  readonly memberId: string
}

export interface StreamsGroupMemberMetadataValueEndpoint {
  readonly host: string
  readonly port: number
}

export interface StreamsGroupMemberMetadataValueKeyValue {
  readonly key: string
  readonly value: string
}

export interface StreamsGroupMemberMetadataValue {
  readonly instanceId: string | null
  readonly rackId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly rebalanceTimeoutMs: number
  readonly topologyEpoch: number
  readonly processId: string
  readonly userEndpoint: StreamsGroupMemberMetadataValueEndpoint | null
  readonly clientTags: readonly StreamsGroupMemberMetadataValueKeyValue[]
}

export interface StreamsGroupMetadataKey {
  readonly groupId: string
}

export interface StreamsGroupMetadataValue {
  readonly epoch: number
  readonly metadataHash: string
  readonly validatedTopologyEpoch: number
  readonly storedDescriptionTopologyEpoch: number
  readonly failedDescriptionTopologyEpoch: number
}

export interface StreamsGroupTargetAssignmentMemberKey {
  readonly groupId: string
  readonly memberId: string
}

export interface StreamsGroupTargetAssignmentMemberValueTaskIds {
  readonly subtopologyId: string
  readonly partitions: readonly number[]
}

export interface StreamsGroupTargetAssignmentMemberValue {
  readonly activeTasks: readonly StreamsGroupTargetAssignmentMemberValueTaskIds[]
  readonly standbyTasks: readonly StreamsGroupTargetAssignmentMemberValueTaskIds[]
  readonly warmupTasks: readonly StreamsGroupTargetAssignmentMemberValueTaskIds[]
}

export interface StreamsGroupTargetAssignmentMetadataKey {
  readonly groupId: string
}

export interface StreamsGroupTargetAssignmentMetadataValue {
  readonly assignmentEpoch: number
  readonly assignmentTimestamp: number
}

export interface StreamsGroupTopologyKey {
  readonly groupId: string
}

export interface StreamsGroupTopologyValueTopicConfig {
  readonly key: string
  readonly value: string
}

export interface StreamsGroupTopologyValueTopicInfo {
  readonly name: string
  readonly partitions: number
  readonly replicationFactor: number
  readonly topicConfigs: readonly StreamsGroupTopologyValueTopicConfig[]
}

export interface StreamsGroupTopologyValueCopartitionGroup {
  readonly sourceTopics: readonly number[]
  readonly sourceTopicRegex: readonly number[]
  readonly repartitionSourceTopics: readonly number[]
}

export interface StreamsGroupTopologyValueSubtopology {
  readonly subtopologyId: string
  readonly sourceTopics: readonly string[]
  readonly sourceTopicRegex: readonly string[]
  readonly stateChangelogTopics: readonly StreamsGroupTopologyValueTopicInfo[]
  readonly repartitionSinkTopics: readonly string[]
  readonly repartitionSourceTopics: readonly StreamsGroupTopologyValueTopicInfo[]
  readonly copartitionGroups: readonly StreamsGroupTopologyValueCopartitionGroup[]
}

export interface StreamsGroupTopologyValue {
  readonly epoch: number
  readonly subtopologies: readonly StreamsGroupTopologyValueSubtopology[]
}

export interface GroupCoordinatorRecords {
  readonly ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentKey
  readonly ConsumerGroupCurrentMemberAssignmentValue: ConsumerGroupCurrentMemberAssignmentValue
  readonly ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataKey
  readonly ConsumerGroupMemberMetadataValue: ConsumerGroupMemberMetadataValue
  readonly ConsumerGroupMetadataKey: ConsumerGroupMetadataKey
  readonly ConsumerGroupMetadataValue: ConsumerGroupMetadataValue
  readonly ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataKey
  readonly ConsumerGroupPartitionMetadataValue: ConsumerGroupPartitionMetadataValue
  readonly ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionKey
  readonly ConsumerGroupRegularExpressionValue: ConsumerGroupRegularExpressionValue
  readonly ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberKey
  readonly ConsumerGroupTargetAssignmentMemberValue: ConsumerGroupTargetAssignmentMemberValue
  readonly ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataKey
  readonly ConsumerGroupTargetAssignmentMetadataValue: ConsumerGroupTargetAssignmentMetadataValue
  readonly GroupMetadataKey: GroupMetadataKey
  readonly GroupMetadataValue: GroupMetadataValue
  readonly LegacyOffsetCommitKey: LegacyOffsetCommitKey
  readonly LegacyOffsetCommitValue: LegacyOffsetCommitValue
  readonly OffsetCommitKey: OffsetCommitKey
  readonly OffsetCommitValue: OffsetCommitValue
  readonly ShareGroupCurrentMemberAssignmentKey: ShareGroupCurrentMemberAssignmentKey
  readonly ShareGroupCurrentMemberAssignmentValue: ShareGroupCurrentMemberAssignmentValue
  readonly ShareGroupMemberMetadataKey: ShareGroupMemberMetadataKey
  readonly ShareGroupMemberMetadataValue: ShareGroupMemberMetadataValue
  readonly ShareGroupMetadataKey: ShareGroupMetadataKey
  readonly ShareGroupMetadataValue: ShareGroupMetadataValue
  readonly ShareGroupStatePartitionMetadataKey: ShareGroupStatePartitionMetadataKey
  readonly ShareGroupStatePartitionMetadataValue: ShareGroupStatePartitionMetadataValue
  readonly ShareGroupTargetAssignmentMemberKey: ShareGroupTargetAssignmentMemberKey
  readonly ShareGroupTargetAssignmentMemberValue: ShareGroupTargetAssignmentMemberValue
  readonly ShareGroupTargetAssignmentMetadataKey: ShareGroupTargetAssignmentMetadataKey
  readonly ShareGroupTargetAssignmentMetadataValue: ShareGroupTargetAssignmentMetadataValue
  readonly StreamsGroupCurrentMemberAssignmentKey: StreamsGroupCurrentMemberAssignmentKey
  readonly StreamsGroupCurrentMemberAssignmentValue: StreamsGroupCurrentMemberAssignmentValue
  readonly StreamsGroupMemberMetadataKey: StreamsGroupMemberMetadataKey
  readonly StreamsGroupMemberMetadataValue: StreamsGroupMemberMetadataValue
  readonly StreamsGroupMetadataKey: StreamsGroupMetadataKey
  readonly StreamsGroupMetadataValue: StreamsGroupMetadataValue
  readonly StreamsGroupTargetAssignmentMemberKey: StreamsGroupTargetAssignmentMemberKey
  readonly StreamsGroupTargetAssignmentMemberValue: StreamsGroupTargetAssignmentMemberValue
  readonly StreamsGroupTargetAssignmentMetadataKey: StreamsGroupTargetAssignmentMetadataKey
  readonly StreamsGroupTargetAssignmentMetadataValue: StreamsGroupTargetAssignmentMetadataValue
  readonly StreamsGroupTopologyKey: StreamsGroupTopologyKey
  readonly StreamsGroupTopologyValue: StreamsGroupTopologyValue
}

export interface TransactionLogKey {
  readonly transactionalId: string
}

export interface TransactionLogValuePartitionsSchema {
  readonly topic: string
  readonly partitionIds: readonly number[]
}

export interface TransactionLogValue {
  readonly producerId: number
  readonly previousProducerId: number
  readonly nextProducerId: number
  readonly producerEpoch: number
  readonly nextProducerEpoch: number
  readonly transactionTimeoutMs: number
  readonly transactionStatus: number
  readonly transactionPartitions: readonly TransactionLogValuePartitionsSchema[] | null
  readonly transactionLastUpdateTimestampMs: number
  readonly transactionStartTimestampMs: number
  readonly clientTransactionVersion: number
}

export interface TransactionCoordinatorRecords {
  readonly TransactionLogKey: TransactionLogKey
  readonly TransactionLogValue: TransactionLogValue
}

export interface ShareSnapshotKey {
  readonly groupId: string
  readonly topicId: Uuid
  readonly partition: number
}

export interface ShareSnapshotValueStateBatch {
  readonly firstOffset: number
  readonly lastOffset: number
  readonly deliveryState: number
  readonly deliveryCount: number
}

export interface ShareSnapshotValue {
  readonly snapshotEpoch: number
  readonly stateEpoch: number
  readonly leaderEpoch: number
  readonly startOffset: number
  readonly deliveryCompleteCount: number
  readonly createTimestamp: number
  readonly writeTimestamp: number
  readonly stateBatches: readonly ShareSnapshotValueStateBatch[]
}

export interface ShareUpdateKey {
  readonly groupId: string
  readonly topicId: Uuid
  readonly partition: number
}

export interface ShareUpdateValueStateBatch {
  readonly firstOffset: number
  readonly lastOffset: number
  readonly deliveryState: number
  readonly deliveryCount: number
}

export interface ShareUpdateValue {
  readonly snapshotEpoch: number
  readonly leaderEpoch: number
  readonly startOffset: number
  readonly deliveryCompleteCount: number
  readonly stateBatches: readonly ShareUpdateValueStateBatch[]
}

export interface ShareCoordinatorRecords {
  readonly ShareSnapshotKey: ShareSnapshotKey
  readonly ShareSnapshotValue: ShareSnapshotValue
  readonly ShareUpdateKey: ShareUpdateKey
  readonly ShareUpdateValue: ShareUpdateValue
}

export interface ProducerSnapshotProducerEntry {
  readonly producerId: number
  readonly epoch: number
  readonly lastSequence: number
  readonly lastOffset: number
  readonly offsetDelta: number
  readonly timestamp: number
  readonly coordinatorEpoch: number
  readonly currentTxnFirstOffset: number
}

export interface ProducerSnapshot {
  readonly crc: number
  readonly producerEntries: readonly ProducerSnapshotProducerEntry[]
}

export interface QuorumStateDataVoter {
  readonly voterId: number
}

export interface QuorumStateData {
  readonly clusterId: string
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly votedId: number
  readonly votedDirectoryId: Uuid
  readonly appliedOffset: number
  readonly currentVoters: readonly QuorumStateDataVoter[] | null
}

export interface DataTypes {
  readonly AbortedTxn: AbortedTxn
  readonly ConsumerProtocolAssignment: ConsumerProtocolAssignment
  readonly ConsumerProtocolSubscription: ConsumerProtocolSubscription
  readonly ControlRecordTypeSchema: ControlRecordTypeSchema
  readonly DefaultPrincipalData: DefaultPrincipalData
  readonly EndTxnMarker: EndTxnMarker
  readonly KRaftVersionRecord: KRaftVersionRecord
  readonly LeaderChangeMessage: LeaderChangeMessage
  readonly RequestHeader: RequestHeader
  readonly ResponseHeader: ResponseHeader
  readonly SnapshotFooterRecord: SnapshotFooterRecord
  readonly SnapshotHeaderRecord: SnapshotHeaderRecord
  readonly VotersRecord: VotersRecord
  readonly ProducerSnapshot: ProducerSnapshot
  readonly QuorumStateData: QuorumStateData
}

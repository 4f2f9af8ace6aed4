/** What a metric is; every one that exists is a row here, and `docs/METRICS.md` is printed from them. */
export interface MetricRow {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  readonly help: string
  /** Upper bounds of a histogram, rising. */
  readonly buckets?: readonly number[]
}

/** Bounds of every duration, in seconds. */
export const SECONDS_BUCKETS = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5] as const

function counter(name: string, labels: readonly string[], help: string): MetricRow {
  return { name, type: 'counter', labels, help }
}

function gauge(name: string, labels: readonly string[], help: string): MetricRow {
  return { name, type: 'gauge', labels, help }
}

function seconds(name: string, labels: readonly string[], help: string): MetricRow {
  return { name, type: 'histogram', labels, help, buckets: SECONDS_BUCKETS }
}

/**
 * Nothing is labelled by connection or by client. `topic` is set only for topics that exist and goes with the topic; `group` only for groups
 * with committed offsets.
 */
export const METRICS: readonly MetricRow[] = [
  gauge('moonmq_build_info', ['version', 'commit'], 'Always 1; the labels say what runs'),
  gauge('moonmq_topic_count', [], 'Topics, internal ones apart'),
  gauge('moonmq_partition_count', [], 'Partitions of all topics, internal ones apart'),
  gauge('moonmq_partitions_offline', [], 'Partitions that take no records: their log failed or could not be opened'),
  gauge('moonmq_groups', [], 'Groups that the broker holds'),
  gauge('moonmq_group_states', ['kind', 'state'], 'Groups by kind (classic, consumer, share, native) and state, in the words of Kafka'),
  counter(
    'moonmq_group_rebalances_total',
    ['kind'],
    'New generations of classic groups, new epochs of others: members came or went, or their topics changed',
  ),
  counter('moonmq_group_members_expired_total', ['kind'], 'Members taken out of groups because they were not heard from in time'),
  counter('moonmq_offsets_committed_total', ['via'], 'Offsets that groups committed: member, transaction (counted when they are stored)'),
  counter('moonmq_offset_commits_refused_total', ['error'], 'Requests to commit offsets that were refused as a whole, by error'),
  counter('moonmq_offsets_expired_total', [], 'Committed offsets that were deleted because their retention is over'),

  gauge('moonmq_connections_open', [], 'Client connections open now'),
  counter('moonmq_connections_accepted_total', [], 'Client connections accepted'),
  counter('moonmq_connections_closed_total', ['reason'], 'Client connections closed, by reason'),
  counter('moonmq_connections_refused_total', ['reason'], 'Connections refused: total, descriptors, per_address'),
  counter('moonmq_connections_refused_fd_total', [], 'Connections refused because file descriptors ran short'),
  seconds('moonmq_connection_duration_seconds', [], 'How long a connection was open'),
  gauge('moonmq_pending_bytes', ['protocol'], 'Bytes waiting to be sent, all connections together'),
  gauge('moonmq_pending_bytes_max', ['protocol'], 'Bytes waiting to be sent on the connection with the most'),

  counter('moonmq_frames_received_total', ['op'], 'Native frames received, by opcode'),
  counter('moonmq_frames_sent_total', [], 'Native frames sent'),
  counter('moonmq_bytes_received_total', ['protocol'], 'Bytes received from clients'),
  counter('moonmq_bytes_sent_total', ['protocol'], 'Bytes sent to clients'),
  seconds('moonmq_send_duration_seconds', [], 'Time from queueing an answer until the system took it'),
  seconds('moonmq_dispatch_duration_seconds', ['op'], 'Time to handle a native frame'),
  counter('moonmq_kafka_requests_total', ['api'], 'Kafka requests, by API'),
  seconds('moonmq_kafka_request_seconds', ['api'], 'Time to answer a Kafka request, waits of a fetch included'),

  counter('moonmq_produce_records_total', ['topic'], 'Records appended'),
  counter('moonmq_produce_batches_total', ['topic'], 'Record batches appended'),
  counter('moonmq_produce_bytes_total', ['topic'], 'Bytes of record batches appended'),
  counter('moonmq_produce_failed_total', ['error'], 'Batches refused or failed, by error'),
  counter('moonmq_idempotent_produce_total', ['topic'], 'Batches of idempotent producers'),
  counter('moonmq_duplicate_batches_total', ['topic'], 'Batches recognised as a resend and not stored again'),
  counter('moonmq_fetch_records_total', ['topic'], 'Records delivered to native consumers'),
  counter('moonmq_fetch_bytes_total', ['topic'], 'Bytes of record batches delivered'),
  gauge('moonmq_transactional_ids', [], 'Transactional ids that the broker holds'),
  gauge('moonmq_transactions_open', [], 'Transactions begun and not ended'),
  counter('moonmq_transactions_ended_total', ['result'], 'Transactions ended: committed, aborted'),
  counter('moonmq_transactions_timed_out_total', [], 'Transactions aborted because they were open for too long'),
  counter('moonmq_transactional_ids_expired_total', [], 'Transactional ids forgotten because nobody used them for so long'),
  gauge('moonmq_fetches_waiting', [], 'Fetches that wait for data'),
  gauge('moonmq_fetch_sessions', [], 'Fetch sessions of Kafka clients'),
  gauge('moonmq_fetch_session_bytes', [], 'Memory of the fetch sessions, as counted against its limit'),
  counter('moonmq_fetch_session_evictions_total', [], 'Fetch sessions that made room for another: unused, or old with fewer partitions'),

  gauge('moonmq_share_sessions', [], 'Share sessions of connections'),
  gauge('moonmq_share_partitions', [], 'Partitions in which share groups have positions'),
  counter('moonmq_share_delivered_total', [], 'Records given to members of share groups, each delivery of one counted'),
  counter('moonmq_share_locks_expired_total', [], 'Records that a member of a share group held until their lock was over'),
  counter(
    'moonmq_share_acknowledged_total',
    ['type'],
    'Records acknowledged by members of share groups: accept, release, reject, renew, gap',
  ),
  counter('moonmq_nack_total', ['topic'], 'Records that native consumers refused'),
  counter('moonmq_retry_records_total', ['topic'], 'Records moved to wait for another try, by the topic that they came from'),
  counter('moonmq_dlq_records_total', ['topic'], 'Records moved to the dead-letter topic, by the topic that they came from'),
  counter('moonmq_dlq_failed_total', ['error'], 'Dead records that could not be moved and are tried again, by error'),

  gauge('moonmq_consumer_lag', ['group', 'topic', 'partition'], 'Records between the committed offset and the high watermark'),
  gauge('moonmq_partition_in_sync_replicas', ['topic', 'partition'], 'Replicas in sync'),
  gauge('moonmq_partition_log_bytes', ['topic', 'partition'], 'Bytes of the log on disk'),
  counter('moonmq_indexes_rebuilt_total', ['topic'], 'Indexes that did not fit their log and were built again while the broker ran'),
  counter('moonmq_segment_rolls_total', ['topic'], 'Segments begun after a full or old one'),
  counter(
    'moonmq_retention_segments_total',
    ['topic', 'reason'],
    'Segments that retention took out of logs, by reason: time, bytes, start',
  ),
  counter('moonmq_retention_bytes_total', ['topic'], 'Bytes of those segments'),
  seconds('moonmq_fsync_duration_seconds', [], 'Time of one sync of a log file'),
  counter('moonmq_fsync_total', [], 'Syncs of log files'),
  counter('moonmq_journal_frames_total', [], 'Syncs of the journal, each of which stood in for syncs of many log files'),
  gauge('moonmq_storage_free_bytes', [], 'Bytes that can still be written on the volume of the data folder'),
  gauge('moonmq_append_queue_bytes', [], 'Bytes appended and not written yet'),
  counter('moonmq_storage_failures_total', ['topic'], 'Logs closed after a failed write or sync'),
  counter('moonmq_background_failures_total', ['loop'], 'Passes of a background loop that failed, by loop'),
  counter('moonmq_compaction_passes_total', [], 'Passes of compaction over a log'),
  counter('moonmq_compaction_failures_total', [], 'Compactions of a log that failed and are tried again'),
  counter('moonmq_compaction_io_bytes_total', [], 'Bytes that compaction read and wrote'),
  counter('moonmq_compaction_freed_bytes_total', [], 'Bytes of logs that compaction freed'),
  counter('moonmq_compaction_removed_records_total', [], 'Records that compaction took away'),
  seconds('moonmq_compaction_seconds', [], 'Time to compact a log'),
  gauge('moonmq_compaction_uncleanable_partitions', [], 'Partitions whose compaction failed last time'),
  gauge('moonmq_compaction_max_dirty_ratio', [], 'Largest share of bytes that are not compacted, of all compacted logs'),
  counter('moonmq_producers_expired_total', [], 'Idempotent producers of a partition and producer names forgotten after silence'),

  counter('moonmq_metrics_http_requests_total', [], 'Requests to the HTTP listener'),
  counter('moonmq_metrics_http_unauthorized_total', [], 'Requests to the HTTP listener without a valid credential'),
  counter('moonmq_metric_series_dropped_total', [], 'Series not kept because a metric had too many'),
]

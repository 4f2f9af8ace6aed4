/** Bounds that are not settings. Settings and their ranges live in `config`. */
export const KIB = 1024
export const MIB = 1024 * 1024

/** Largest frame that a length prefix may announce on a shared listener (DESIGN D2); Kafka's `socket.request.max.bytes`. */
export const MAX_REQUEST_BYTES = 100 * MIB
/** What a connection may announce before it has logged in or sent a valid request. */
export const MAX_PRE_AUTH_FRAME_BYTES = 512 * KIB
/** Bytes of the record batch header (Kafka, magic 2). */
export const BATCH_HEADER_BYTES = 61
/** Largest topic name in bytes (docs/PROTOCOL.md, Kafka's rule). */
export const MAX_TOPIC_NAME_BYTES = 249
/** What one compressed batch may inflate to unless a topic or setting says less. */
export const MAX_INFLATED_BATCH_BYTES = 64 * MIB
/** Partitions that one topic may have. */
export const MAX_PARTITIONS_PER_TOPIC = 100_000

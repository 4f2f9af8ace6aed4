import type { AnyApi } from '../handler.ts'

/** Every API that is served, by key. */
export const KAFKA_APIS: readonly AnyApi[] = []

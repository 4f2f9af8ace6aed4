import { suiteTests } from '../support/suite-tests.ts'

/** librdkafka and what is built on it: compiled here. */
suiteTests('librdkafka-1', 'librdkafka-2', 'node-rdkafka')

import { suiteTests } from '../support/suite-tests.ts'

/** librdkafka, compiled here. */
suiteTests('librdkafka-1', 'librdkafka-2')

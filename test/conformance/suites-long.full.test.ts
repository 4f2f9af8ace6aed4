import { suiteTests } from '../support/suite-tests.ts'

/** What takes minutes to build, or dies on Kafka too before its end. */
suiteTests('kafka-go-reader', 'node-rdkafka')

import { suiteTests } from '../support/suite-tests.ts'

/** What dies on Kafka too before its end. */
suiteTests('kafka-go-reader')

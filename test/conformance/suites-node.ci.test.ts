import { suiteTests } from '../support/suite-tests.ts'

/** Clients for Node beside those that tests of our own use. */
suiteTests('node-rdkafka')

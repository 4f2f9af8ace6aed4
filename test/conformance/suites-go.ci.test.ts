import { suiteTests } from '../support/suite-tests.ts'

/** Clients in Go. */
suiteTests('franz-go', 'kafka-go', 'kfake-behaviours')

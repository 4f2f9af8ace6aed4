import { suiteTests } from '../support/suite-tests.ts'

/** Apache Kafka's own tools and Streams, kcat, kafka-python. */
suiteTests('kcat', 'java-tools', 'java-streams', 'kafka-python')

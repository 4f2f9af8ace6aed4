/** `moonmq/chaos`: faults between a program and the broker, from a seed, and a judge of what came of them. */
export { ChaosNet } from './chaos-net.ts'
export { ChaosProducer, type ChaosProducerDeps } from './chaos-producer.ts'
export { type ChaosOptions, ChaosPlan, type ChaosRates, type Decision, FAULTS, type Fault } from './plan.ts'
export { type Found, judge, type PartitionVerdict, type Sent, type Verdict } from './verdict.ts'

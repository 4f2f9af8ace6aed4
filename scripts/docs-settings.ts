/** The part of docs/KAFKA.md about settings: which of Kafka's are not there, and why. */
import { readFileSync } from 'node:fs'
import { BROKER_SETTINGS } from '../src/config/broker-settings.ts'
import { GROUP_SETTINGS } from '../src/config/group-settings.ts'
import { TOPIC_SETTINGS } from '../src/config/topic-settings.ts'
import { inRoot } from '../test/support/root.ts'

type Kind = 'broker' | 'topic' | 'group'

/** Every setting that DescribeConfigs of Apache Kafka 4.4 names. */
const KAFKA = JSON.parse(readFileSync(inRoot('test', 'fixtures', 'kafka-4.4.0-settings.json'), 'utf8')) as Readonly<
  Record<Kind, readonly string[]>
>
const OWN: Readonly<Record<Kind, readonly { readonly name: string }[]>> = {
  broker: BROKER_SETTINGS,
  topic: TOPIC_SETTINGS,
  group: GROUP_SETTINGS,
}
/** DescribeConfigs names these too; they come from elsewhere than the settings under Kafka's names. */
const SHOWN: ReadonlySet<string> = new Set(['advertised.listeners', 'broker.id', 'node.id'])

/** The first that fits holds. */
const REASONS: readonly (readonly [names: RegExp, reason: string])[] = [
  [
    /^(ssl|sasl|delegation\.token|principal\.builder|security|authorizer|connections\.max\.reauth|connection\.failed\.auth)/,
    'Login and encryption are not in this version.',
  ],
  [/^(remote|log\.remote|follower\.fetch\.last\.tiered)/, 'There is no tiered storage.'],
  [/streams/, 'The protocol of Streams groups is not in this version: Streams runs on classic groups.'],
  [
    /^(replica|replication|num\.replica|controller|controlled|auto\.leader|leader\.imbalance|broker\.(heartbeat|session|rack)|initial\.broker|inter\.broker|process\.roles|unclean|alter\.log\.dirs|socket\.connection\.setup|metadata\.(log|max)|add\.partitions|request\.timeout)|\.(replication\.factor|min\.isr)$/,
    'There is one broker, its own controller, with one replica of each partition.',
  ],
  [
    /^(log\.dirs?|cordoned\.log\.dirs|log\.dir\.failure)/,
    'There is one folder: `server.dataDir`. An error of its disk stops partitions, not the broker.',
  ],
  [/^(listeners|listener\.|early\.start)/, 'Listeners are set under `listeners` of the settings file.'],
  [/(threads|background|purgatory|queued\.max)/, 'There are no pools of threads, no purgatories and no queue of requests to be sized.'],
  [
    /(append\.linger|buffer\.(size|max|load)|load\.buffer|cached\.buffer|\.io\.buffer|socket\.(receive|send)\.buffer)/,
    'Buffers are bounded by the broker itself; records of coordinators are appended at once.',
  ],
  [/(quota|telemetry\.max|metrics?\.|kafka\.metrics)/, 'There are no quotas and no client metrics; metrics are served by HTTP.'],
  [/(class|config\.providers|policy|share\.assignors)/, 'There are no plug-ins.'],
  [/^errors\.deadletterqueue\.auto/, 'The topic of dead letters is always made when it is missing.'],
  [/^transaction\.partition\.verification/, 'What is appended in a transaction is always verified.'],
  [/rebalance\.protocols/, 'Deprecated in Kafka: `group.version` says it, and all protocols are on.'],
  [/compression\.codec/, 'Records of coordinators are not compressed.'],
  [/(checkpoint\.interval|cleanup\.interval|timeout\.ms)/, 'The broker has its own times for it, which need no setting.'],
  [/^socket\.listen\.backlog/, 'The backlog is that of Node.'],
  [/^max\.request\.partition/, 'DescribeTopicPartitions answers 2,000 partitions at once, as Kafka does by default.'],
]

/** Names of Kafka's that are not here, and why. Throws for one without a reason. */
export function settingsLeftOut(): readonly { readonly kind: Kind; readonly reason: string; readonly names: readonly string[] }[] {
  const left = new Map<string, { kind: Kind; reason: string; names: string[] }>()
  for (const kind of ['broker', 'topic', 'group'] as const) {
    const own = new Set(OWN[kind].map(({ name }) => name))
    for (const name of KAFKA[kind]) {
      if (own.has(name) || SHOWN.has(name)) continue
      const reason = REASONS.find(([names]) => names.test(name))?.[1]
      if (reason === undefined) throw new Error(`nothing says why the ${kind} setting ${name} is left out`)
      const key = `${kind} ${reason}`
      const group = left.get(key) ?? { kind, reason, names: [] }
      left.set(key, group)
      group.names.push(name)
    }
  }
  return [...left.values()]
}

export function settingsSection(): string {
  const rows = settingsLeftOut().map(
    ({ kind, reason, names }) => `| ${kind} | ${reason} | ${names.map((name) => `\`${name}\``).join(' ')} |`,
  )
  return `## Settings of Kafka that are not here

DescribeConfigs names what [CONFIG.md](CONFIG.md) lists. Of what Apache Kafka 4.4 names besides:

| of a | why it is not here | names |
| --- | --- | --- |
${rows.join('\n')}

\`min.cleanable.dirty.ratio\` takes numbers from 0 to 1; Kafka takes \`NaN\` as well, and then cleans nothing.`
}

import type { GroupSettings } from '../settings.ts'
import type { ShareGroupSettings } from './share-types.ts'

/** Times of the membership of a share group. */
export interface ShareMembershipSettings {
  readonly sessionTimeoutMs: number
  readonly heartbeatIntervalMs: number
  readonly assignmentIntervalMs: number
}

/** What the settings of a group mean to its share partitions and members. */
export class ShareSettings {
  readonly #groups: GroupSettings

  constructor(groups: GroupSettings) {
    this.#groups = groups
  }

  membership(group: string): ShareMembershipSettings {
    return {
      sessionTimeoutMs: this.#groups.number(group, 'share.session.timeout.ms'),
      heartbeatIntervalMs: this.#groups.number(group, 'share.heartbeat.interval.ms'),
      assignmentIntervalMs: this.#groups.number(group, 'share.assignment.interval.ms'),
    }
  }

  of(group: string): ShareGroupSettings {
    const groups = this.#groups
    return {
      maxDeliveries: groups.number(group, 'share.delivery.count.limit'),
      lockMs: groups.number(group, 'share.record.lock.duration.ms'),
      maxLocks: groups.number(group, 'share.partition.max.record.locks'),
      isolation: groups.text(group, 'share.isolation.level') === 'read_committed' ? 'read_committed' : 'read_uncommitted',
      reset: resetOf(groups.text(group, 'share.auto.offset.reset')),
      renewIsAllowed: groups.text(group, 'share.renew.acknowledge.enable') === 'true',
    }
  }
}

const BY_DURATION = /^by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$/i

function resetOf(text: string): ShareGroupSettings['reset'] {
  const parts = BY_DURATION.exec(text)
  if (parts === null) return text.toLowerCase() === 'earliest' ? 'earliest' : 'latest'
  const [days, hours, minutes, seconds] = parts.slice(1).map((part) => Number(part ?? 0)) as [number, number, number, number]
  return { backMs: Math.round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000) }
}

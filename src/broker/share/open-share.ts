import type { Metadata } from '../../metadata/types.ts'
import type { GroupTable } from '../groups/group-table.ts'
import type { BrokerSettings, GroupSettings } from '../settings.ts'
import { ShareGroups, ShareKind } from './share-groups.ts'
import { type ShareDeps, ShareService } from './share-service.ts'
import { ShareSettings } from './share-settings.ts'

export interface OpenShareDeps extends Omit<ShareDeps, 'settings' | 'checkGroup'> {
  readonly table: GroupTable
  readonly groupSettings: GroupSettings
}

/** The kind must be known before the groups are read; the rest needs the groups. */
export function shareKind(metadata: Metadata, settings: GroupSettings, broker: BrokerSettings): ShareKind {
  return new ShareKind({ metadata, settings: new ShareSettings(settings), maxMembers: broker.number('group.share.max.size') })
}

export function openShare(deps: OpenShareDeps, kind: ShareKind, broker: BrokerSettings): { service: ShareService; groups: ShareGroups } {
  const settings = new ShareSettings(deps.groupSettings)
  const service = new ShareService(
    { ...deps, settings, checkGroup: (group) => groups.checkGroup(group) },
    {
      updatesPerSnapshot: broker.number('share.coordinator.snapshot.update.records.per.snapshot'),
      maxSessions: broker.number('group.share.max.share.sessions'),
    },
  )
  const groups: ShareGroups = new ShareGroups({ ...deps, settings, service }, kind)
  kind.cleared = (group) => service.removeStates(group, null)
  return { service, groups }
}

import { FAILPOINT_NAMES, type PlannedFailure } from '../core/failpoint.ts'
import { nearest } from '../core/nearest.ts'
import type { Environment } from './environment.ts'
import { badSetting } from './overlay.ts'

const VARIABLE = 'MOONMQ_FAILPOINT'
const FORM = /^([a-z.-]+):(kill|error=(E[A-Z0-9]+))(?:@([1-9]\d{0,8}))?$/

/** `MOONMQ_FAILPOINT=name:kill@N,name:error=EIO@N`, N being 1 unless given. Throws SETTING_INVALID: a typing error must not pass for no fault. */
export function readFailpoints(env: Environment): PlannedFailure[] {
  const text = env[VARIABLE]
  if (text === undefined || text === '') return []
  return text.split(',').map((part) => {
    const [, name = '', , errorCode, nth] = FORM.exec(part.trim()) ?? []
    if (name === '') throw badSetting(`${VARIABLE}: ${JSON.stringify(part)} is not of the form name:kill@N or name:error=CODE@N`)
    const known = FAILPOINT_NAMES.find((each) => each === name)
    if (known === undefined) {
      const close = nearest(name, FAILPOINT_NAMES)
      throw badSetting(`${VARIABLE}: there is no moment ${name}${close === null ? '' : `; did you mean ${close}?`}`)
    }
    return { name: known, nth: Number(nth ?? 1), errorCode: errorCode ?? null }
  })
}

/** Who asks and from where: made by a door for each request, passed to every broker call. */
export interface RequestContext {
  /** `User:ANONYMOUS` without login. */
  readonly principal: string
  readonly protocol: 'native' | 'kafka' | 'http' | 'internal'
  readonly clientId: string
  readonly clientHost: string
  /** The listener the connection came in on, for the advertised address. */
  readonly listener: string
  /** Fires when the connection is gone or the broker stops: parked work ends then. */
  readonly signal: AbortSignal
}

/** The broker itself: no rule of a client applies. */
export const INTERNAL_CONTEXT: RequestContext = {
  principal: 'User:MOONMQ',
  protocol: 'internal',
  clientId: 'moonmq',
  clientHost: '',
  listener: '',
  signal: new AbortController().signal,
}

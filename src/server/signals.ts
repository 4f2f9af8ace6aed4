/** Stop signals of the process. */
export interface StopSignals {
  /** Stops listening for signals. */
  dispose(): void
}

/**
 * The first interrupt or terminate asks for a stop in order, a second one ends the process at once: everything acknowledged is on disk
 * anyway, the next start then recovers. A hangup (a closed terminal) is no reason to stop.
 */
export function onStopSignals(handlers: { stop(signal: string): void; force(signal: string): void; hangup(): void }): StopSignals {
  let isStopping = false
  const ask = (signal: NodeJS.Signals) => {
    if (isStopping) {
      handlers.force(signal)
      return
    }
    isStopping = true
    handlers.stop(signal)
  }
  process.on('SIGINT', ask)
  process.on('SIGTERM', ask)
  process.on('SIGHUP', handlers.hangup)
  return {
    dispose() {
      process.off('SIGINT', ask)
      process.off('SIGTERM', ask)
      process.off('SIGHUP', handlers.hangup)
    },
  }
}

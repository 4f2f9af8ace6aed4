/** Something found in a data folder: where, and what a person should know. `file` is relative to the folder. */
export interface Finding {
  readonly file: string
  /** Byte in the file, or null when it is about the file as a whole. */
  readonly position: number | null
  readonly reason: string
}

/** Findings of each list that are kept; the rest is only counted. */
const MAX_LISTED = 1000

/**
 * What a check found. `problems`: bytes that should be there and are not, or that contradict each other. `repairs`: what a start after
 * an unclean stop puts right by itself and without loss of anything acknowledged. `notes`: worth knowing, not wrong.
 */
export class Findings {
  readonly problems: Finding[] = []
  readonly repairs: Finding[] = []
  readonly notes: Finding[] = []
  /** Problems beyond those listed. */
  problemsLeftOut = 0

  problem(file: string, position: number | null, reason: string): void {
    if (this.problems.length < MAX_LISTED) this.problems.push({ file, position, reason })
    else this.problemsLeftOut++
  }

  repair(file: string, position: number | null, reason: string): void {
    if (this.repairs.length < MAX_LISTED) this.repairs.push({ file, position, reason })
  }

  note(file: string, reason: string): void {
    if (this.notes.length < MAX_LISTED) this.notes.push({ file, position: null, reason })
  }

  /** Takes over what another check found, in its order. */
  append({ problems, problemsLeftOut, repairs, notes }: Findings): void {
    for (const { file, position, reason } of problems) this.problem(file, position, reason)
    this.problemsLeftOut += problemsLeftOut
    for (const { file, position, reason } of repairs) this.repair(file, position, reason)
    for (const { file, reason } of notes) this.note(file, reason)
  }

  /** A problem, or a repair when the next start makes the file anew anyway. */
  add(isRepaired: boolean, file: string, position: number | null, reason: string): void {
    if (isRepaired) this.repair(file, position, reason)
    else this.problem(file, position, reason)
  }
}

/** The known name that a mistyped one was probably meant to be, without regard to case; null when none is close. */
export function nearest(name: string, known: Iterable<string>): string | null {
  const wanted = name.toLowerCase()
  let best: string | null = null
  let bestDistance = Number.POSITIVE_INFINITY
  for (const candidate of known) {
    const distance = editDistance(wanted, candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  // A third of the letters wrong is a different word.
  return bestDistance <= Math.max(2, Math.floor(wanted.length / 3)) ? best : null
}

/** Insertions, removals, replacements and swaps of neighbours that turn one word into the other. */
function editDistance(a: string, b: string): number {
  const width = b.length + 1
  let beforeLast: number[] = []
  let last = Array.from({ length: width }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column < width; column++) {
      const same = a[row - 1] === b[column - 1]
      let distance = Math.min((last[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1, (last[column - 1] ?? 0) + (same ? 0 : 1))
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) distance = Math.min(distance, (beforeLast[column - 2] ?? 0) + 1)
      current.push(distance)
    }
    beforeLast = last
    last = current
  }
  return last[width - 1] ?? 0
}

import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Beside the modules as they are compiled, and from the bundle of the command: beside its entry, or above its parts. */
const PLACES = ['./codec-thread.js', './codec-thread.mjs', '../codec-thread.mjs']

/** The program of the codecs' thread; null where somebody bundled the broker without it. */
export function codecThreadUrl(): URL | null {
  for (const place of PLACES) {
    const url = new URL(place, import.meta.url)
    if (existsSync(fileURLToPath(url))) return url
  }
  return null
}

/** Characters that a terminal or a log reader may act on: C0 and C1 controls, delete, line separators, text direction marks. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** The text with every such character as `\uXXXX`, so that one event stays one line and colours nothing. */
export function escapeControls(text: string): string {
  return text.replace(UNSAFE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const COLOURS: Readonly<Record<string, string>> = { debug: '\u001b[2m', info: '', warn: '\u001b[33m', error: '\u001b[31m' }
const RESET = '\u001b[0m'

/** Fields that have a place of their own in the text. */
const PLACED = new Set(['time', 'level', 'event', 'msg'])

/**
 * A JSON line of the log as text for people: `2026-01-02T03:04:05.678Z [INFO] [group] text key=value`. The component is the first
 * part of the event's name.
 */
export function textLine(json: string, colour: boolean): string {
  const line = JSON.parse(json) as Record<string, unknown>
  const level = String(line.level)
  const component = String(line.event).split('.')[0]
  let text = `${String(line.time)} [${level.toUpperCase()}] [${component}] ${escapeControls(String(line.msg))}`
  for (const [name, value] of Object.entries(line)) {
    if (PLACED.has(name)) continue
    text += ` ${escapeControls(name)}=${escapeControls(typeof value === 'string' ? value : JSON.stringify(value))}`
  }
  const start = colour ? (COLOURS[level] ?? '') : ''
  return `${start}${text}${start === '' ? '' : RESET}\n`
}

/** docs/ERRORS.md, from the table of src/core/errors.ts. */
import { ERRORS, type ErrorRow } from '../src/core/errors.ts'

const HEAD = `# Errors

<!-- Made by scripts/docs-errors.ts from src/core/errors.ts. Do not edit. -->

One table for every door: inside, an error is a name; the native protocol, Kafka's protocol and HTTP each have a code for it. *Retry* says
whether the same request can succeed later without being changed.

| name | native | Kafka | HTTP | retry | message |
| --- | --- | --- | --- | --- | --- |
`

/** The errors document as text. */
export function errorsDocument(): string {
  const rows = Object.entries<ErrorRow>(ERRORS).map(
    ([name, { native, kafka, http, retriable, message }]) =>
      `| \`${name}\` | ${native} | ${kafka} | ${http} | ${retriable ? 'yes' : 'no'} | ${message.replaceAll('|', '\\|')} |`,
  )
  return `${HEAD}${rows.join('\n')}\n`
}

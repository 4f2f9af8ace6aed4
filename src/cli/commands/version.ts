import { crc32cImplementation } from '../../core/crc32c.ts'
import { VERSION } from '../../server/version.ts'
import { type CliContext, EXIT } from '../context.ts'
import { printJson } from '../output.ts'

/** What runs, and on what. */
export function showVersion(context: CliContext, options: { json?: boolean; short?: boolean }): number {
  if (options.short) {
    context.out(`${VERSION}\n`)
    return EXIT.done
  }
  const facts = { version: VERSION, node: process.versions.node, os: process.platform, arch: process.arch, crc32c: crc32cImplementation() }
  if (options.json) printJson(context, facts)
  else context.out(`MoonMQ ${facts.version} on Node ${facts.node}, ${facts.os} ${facts.arch}, CRC-32C: ${facts.crc32c}\n`)
  return EXIT.done
}

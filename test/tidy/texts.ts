/** Rules about the text of files: documents, tests, the lock file, and words that have no place in the project. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../support/root.ts'
import type { Finding } from './rules.ts'

export interface TextFile {
  readonly path: string
  readonly text: string
}

const NOT_OURS = new Set(['.git', 'node_modules', 'dist', 'coverage', 'moonmq-data'])
const BINARY = /\.(bin|gz|png|ico|woff2|log|index|timeindex|snapshot|checkpoint)$/

/** Every text file of the project, as paths from its folder. */
export function projectTexts(): TextFile[] {
  const found: TextFile[] = []
  const visit = (folder: string): void => {
    for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (NOT_OURS.has(entry.name) || BINARY.test(entry.name)) continue
      if (entry.isDirectory()) visit(path)
      else if (entry.isFile()) found.push({ path, text: readFileSync(join(ROOT, path), 'utf8') })
    }
  }
  visit('')
  return found.sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** Written in pieces, or this file would break its own rule. */
const PLACES: readonly { readonly words: RegExp; readonly allowed: readonly string[] }[] = [
  { words: new RegExp(['/wo', 'rk/'].join(''), 'g'), allowed: [] },
  { words: new RegExp(['/tmp/(wt', 'plan', 'tools)/'].join('|'), 'g'), allowed: [] },
  { words: new RegExp(['\\.\\./sha', 'red'].join(''), 'g'), allowed: ['.ci/run', 'bench/'] },
]

/** Paths of one machine, and folders beside the project. */
export function placeFindings(files: readonly TextFile[]): Finding[] {
  const findings: Finding[] = []
  for (const { path, text } of files) {
    for (const place of PLACES) {
      if (place.allowed.some((allowed) => path === allowed || (allowed.endsWith('/') && path.startsWith(allowed)))) continue
      for (const match of text.matchAll(place.words)) {
        findings.push({ path, line: lineAt(text, match.index), text: `${match[0]} names a place outside of the project` })
      }
    }
  }
  return findings
}

/** Tests that run alone, or are skipped without a word why. */
export function skippedFindings(files: readonly TextFile[]): Finding[] {
  const findings: Finding[] = []
  const bad = [
    [/\b(?:test|it|describe|suite)\.only\(|\bonly:\s*true/g, 'runs alone'],
    [/\b(?:test|it|describe|suite)\.(?:skip|todo)\(/g, "is skipped: use { skip: 'reason' }"],
    [/\b(?:skip|todo):\s*true\b|\b(?:skip|todo):\s*''/g, 'is skipped without a reason'],
    [/\.(?:skip|todo)\(\s*\)/g, 'is skipped without a reason'],
  ] as const
  for (const { path, text } of files) {
    if (!path.endsWith('.test.ts') || path.startsWith('test/tidy/')) continue
    for (const [pattern, what] of bad) {
      for (const match of text.matchAll(pattern)) findings.push({ path, line: lineAt(text, match.index), text: `a test ${what}` })
    }
  }
  return findings
}

/** Where packages were downloaded from is nobody's business but the installer's. */
export function lockFindings(lock: string): Finding[] {
  return [...lock.matchAll(/"resolved":\s*"http/g)].map((match) => ({
    path: 'package-lock.json',
    line: lineAt(lock, match.index),
    text: 'the lock file holds a download address; .npmrc keeps them out',
  }))
}

/** Paths in backquotes or links of a document that name files of the project and do not exist. */
export function pathFindings(file: TextFile, exists: (path: string) => boolean = (path) => existsSync(join(ROOT, path))): Finding[] {
  const findings: Finding[] = []
  const check = (path: string, index: number): void => {
    if (!exists(path)) findings.push({ path: file.path, line: lineAt(file.text, index), text: `${path} does not exist` })
  }
  for (const match of file.text.matchAll(/`((?:src|test|scripts|docs|bench|examples)\/[\w./-]*\w\/?)`/g)) check(match[1] ?? '', match.index)
  for (const match of file.text.matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)/g)) {
    const folder = file.path.includes('/') ? file.path.slice(0, file.path.lastIndexOf('/') + 1) : ''
    check(normalize(`${folder}${match[1] ?? ''}`), match.index)
  }
  return findings
}

function normalize(path: string): string {
  const parts: string[] = []
  for (const part of path.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '.' && part !== '') parts.push(part)
  }
  return parts.join('/')
}

function lineAt(text: string, index: number): number {
  let line = 1
  for (let at = text.indexOf('\n'); at >= 0 && at < index; at = text.indexOf('\n', at + 1)) line++
  return line
}

/** Grammars in EBNF (ISO 14977 as far as needed: `=`, `,`, `|`, `[ ]`, `{ }`, `( )`, terminals in quotes, `;` at the end). */
type Node =
  | { readonly kind: 'word'; readonly text: string }
  | { readonly kind: 'rule'; readonly name: string }
  | { readonly kind: 'all' | 'one'; readonly parts: readonly Node[] }
  | { readonly kind: 'maybe' | 'many'; readonly part: Node }

export type Grammar = ReadonlyMap<string, Node>

const TOKEN = /\s*("[^"]*"|[a-z][a-z-]*|[=|[\]{}();])/y

export function readGrammar(source: string): Grammar {
  const tokens: string[] = []
  TOKEN.lastIndex = 0
  for (let found = TOKEN.exec(source); found !== null; found = TOKEN.exec(source)) tokens.push(found[1] as string)
  const rules = new Map<string, Node>()
  let at = 0
  const take = (wanted: string) => {
    if (tokens[at++] !== wanted) throw new Error(`expected ${wanted}, found ${tokens[at - 1]} as token ${at}`)
  }
  const within = (close: string): Node => {
    const inner = alternatives()
    take(close)
    return inner
  }
  const single = (): Node => {
    const token = tokens[at++] ?? ''
    if (token === '[') return { kind: 'maybe', part: within(']') }
    if (token === '{') return { kind: 'many', part: within('}') }
    if (token === '(') return within(')')
    return token.startsWith('"') ? { kind: 'word', text: token.slice(1, -1) } : { kind: 'rule', name: token }
  }
  const sequence = (): Node => {
    const parts: Node[] = []
    while (!['|', ']', '}', ')', ';', undefined].includes(tokens[at])) parts.push(single())
    return { kind: 'all', parts }
  }
  const alternatives = (): Node => {
    const parts = [sequence()]
    while (tokens[at] === '|') {
      at++
      parts.push(sequence())
    }
    return parts.length === 1 ? (parts[0] as Node) : { kind: 'one', parts }
  }
  while (at < tokens.length) {
    const name = tokens[at++] as string
    take('=')
    rules.set(name, alternatives())
    take(';')
  }
  return rules
}

/**
 * Sentences of a rule in which every alternative, every option and every repetition (none, one, two) of it is taken once; of the rules that it
 * names the first sentence, or all of them where they are `opened`. `leaves` gives the rules that the grammar does not say.
 */
export function sentences(
  grammar: Grammar,
  leaves: Readonly<Record<string, readonly string[]>>,
  rule: string,
  opened: readonly string[] = [],
): string[] {
  const expand = (node: Node, depth: number): string[] => {
    if (depth > 12) return []
    switch (node.kind) {
      case 'word':
        return [node.text]
      case 'rule': {
        const leaf = leaves[node.name]
        if (leaf !== undefined) return [...leaf]
        const body = grammar.get(node.name)
        if (body === undefined) throw new Error(`no rule ${node.name}`)
        const all = expand(body, depth + 1)
        return opened.includes(node.name) && depth < 6 ? all : all.slice(0, 1)
      }
      case 'one':
        return node.parts.flatMap((part) => expand(part, depth))
      case 'maybe':
        return ['', ...expand(node.part, depth)]
      case 'many': {
        const once = expand(node.part, depth)
        return ['', ...once, `${once.at(-1)} ${once[0]}`]
      }
      case 'all': {
        const parts = node.parts.map((part) => expand(part, depth))
        const first = parts.map((each) => each[0] ?? '')
        const made = [
          first,
          ...parts.flatMap((each, at) => each.slice(1).map((variant) => first.map((word, index) => (index === at ? variant : word)))),
        ]
        return parts.some((each) => each.length === 0) ? [] : made.map((words) => words.filter((word) => word !== '').join(' '))
      }
    }
  }
  const body = grammar.get(rule)
  if (body === undefined) throw new Error(`no rule ${rule}`)
  return [...new Set(expand(body, 0))]
}

/** Rules that a rule names. */
export function named(grammar: Grammar, rule: string): readonly string[] {
  const found = new Set<string>()
  const walk = (node: Node): void => {
    if (node.kind === 'rule') found.add(node.name)
    else if (node.kind === 'all' || node.kind === 'one') node.parts.forEach(walk)
    else if (node.kind === 'maybe' || node.kind === 'many') walk(node.part)
  }
  const body = grammar.get(rule)
  if (body !== undefined) walk(body)
  return [...found]
}

/** What the rules need to know of a source file. Made from TypeScript's own syntax tree in one walk. */
import { posix } from 'node:path'
import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import {
  isArrowFunction,
  isCallExpression,
  isExportDeclaration,
  isFunctionDeclaration,
  isFunctionExpression,
  isIdentifier,
  isImportDeclaration,
  isImportTypeNode,
  isLiteralTypeNode,
  isMethodDeclaration,
  isNamedExports,
  isNamedImports,
  isNamespaceImport,
  isNewExpression,
  isNonNullExpression,
  isPropertyAccessExpression,
  isStringLiteral,
  isVariableDeclaration,
} from 'typescript/unstable/ast/is'

export interface ImportFact {
  readonly specifier: string
  /** Path from the project's folder of a module of ours, else null. */
  readonly target: string | null
  /** Names taken; `*` for a whole namespace or a bare import. */
  readonly names: readonly string[]
  readonly kind: 'static' | 'dynamic' | 're-export'
  readonly line: number
}

export interface NamedSpan {
  readonly name: string
  readonly line: number
  readonly lines: number
}

export interface UseFact {
  /** `Date.now`, `setTimeout()`, `new Date()`; a call of a plain name ends in `()`, `new` without arguments too. */
  readonly text: string
  readonly line: number
}

export interface FileFacts {
  /** From the project's folder, with `/`: `src/core/clock.ts`. */
  readonly path: string
  readonly text: string
  readonly lines: number
  readonly imports: readonly ImportFact[]
  readonly exports: readonly { readonly name: string; readonly line: number; readonly isType: boolean }[]
  readonly functions: readonly NamedSpan[]
  readonly uses: readonly UseFact[]
  readonly nonNullLines: readonly number[]
}

export function factsOf(path: string, file: SourceFile): FileFacts {
  const imports: ImportFact[] = []
  const exports: { name: string; line: number; isType: boolean }[] = []
  const functions: NamedSpan[] = []
  const uses: UseFact[] = []
  const nonNullLines: number[] = []
  const lineOf = (position: number): number => file.getLineAndCharacterOfPosition(position).line + 1
  const startOf = (node: Node): number => lineOf(node.getStart(file))

  const visit = (node: Node): void => {
    const imported = importOf(node, path)
    if (imported) imports.push({ ...imported, line: startOf(node) })
    if (hasExportKeyword(node))
      for (const name of declaredNames(node)) exports.push({ name, line: startOf(node), isType: isTypeOnly(node) })
    const named = functionName(node)
    if (named !== null) functions.push({ name: named, line: startOf(node), lines: lineOf(node.end) - startOf(node) + 1 })
    const used = useOf(node)
    if (used !== null) uses.push({ text: used, line: startOf(node) })
    if (isNonNullExpression(node)) nonNullLines.push(startOf(node))
    node.forEachChild(visit)
  }
  file.forEachChild(visit)
  const text = file.text
  return { path, text, lines: text.split('\n').length - (text.endsWith('\n') ? 1 : 0), imports, exports, functions, uses, nonNullLines }
}

type ImportShape = Omit<ImportFact, 'line'>

function importOf(node: Node, path: string): ImportShape | null {
  if (isImportDeclaration(node) && isStringLiteral(node.moduleSpecifier)) {
    return shape(path, node.moduleSpecifier.text, importedNames(node.importClause), 'static')
  }
  if (isExportDeclaration(node) && node.moduleSpecifier && isStringLiteral(node.moduleSpecifier)) {
    const clause = node.exportClause
    const names = clause && isNamedExports(clause) ? clause.elements.map((element) => (element.propertyName ?? element.name).text) : ['*']
    return shape(path, node.moduleSpecifier.text, names, 're-export')
  }
  if (isImportTypeNode(node) && isLiteralTypeNode(node.argument) && isStringLiteral(node.argument.literal)) {
    return shape(path, node.argument.literal.text, ['*'], 'static')
  }
  if (isCallExpression(node) && node.expression.kind === SyntaxKind.ImportKeyword) {
    const [argument] = node.arguments
    return shape(path, argument && isStringLiteral(argument) ? argument.text : '', ['*'], 'dynamic')
  }
  return null
}

function importedNames(clause: Node | undefined): string[] {
  const names: string[] = []
  clause?.forEachChild((child) => {
    if (isIdentifier(child)) names.push('default')
    if (isNamespaceImport(child)) names.push('*')
    if (isNamedImports(child)) for (const element of child.elements) names.push((element.propertyName ?? element.name).text)
  })
  return names.length > 0 ? names : ['*']
}

function shape(path: string, specifier: string, names: readonly string[], kind: ImportFact['kind']): ImportShape {
  const target = specifier.startsWith('.') ? posix.normalize(posix.join(posix.dirname(path), specifier)) : null
  return { specifier, target, names, kind }
}

function hasExportKeyword(node: Node): boolean {
  const modifiers = (node as { modifiers?: Iterable<Node> }).modifiers
  for (const modifier of modifiers ?? []) if (modifier.kind === SyntaxKind.ExportKeyword) return true
  return false
}

function isTypeOnly(node: Node): boolean {
  return node.kind === SyntaxKind.InterfaceDeclaration || node.kind === SyntaxKind.TypeAliasDeclaration
}

function declaredNames(node: Node): string[] {
  const own = (node as { name?: Node }).name
  if (own && isIdentifier(own)) return [own.text]
  const names: string[] = []
  const collect = (child: Node): void => {
    if (isVariableDeclaration(child) && isIdentifier(child.name)) names.push(child.name.text)
    else child.forEachChild(collect)
  }
  if (node.kind === SyntaxKind.VariableStatement) node.forEachChild(collect)
  return names
}

/** The name of a function that has a body, `(anonymous)` when it has none; null when the node is no function. */
function functionName(node: Node): string | null {
  if (isFunctionDeclaration(node) || isMethodDeclaration(node) || isFunctionExpression(node)) {
    return node.body ? ((node.name as { text?: string } | undefined)?.text ?? '(anonymous)') : null
  }
  if (node.kind === SyntaxKind.Constructor || node.kind === SyntaxKind.GetAccessor || node.kind === SyntaxKind.SetAccessor)
    return 'accessor or constructor'
  if (!isArrowFunction(node)) return null
  const parent = node.parent
  return isVariableDeclaration(parent) && isIdentifier(parent.name) ? parent.name.text : '(arrow function)'
}

function useOf(node: Node): string | null {
  if (isPropertyAccessExpression(node)) return dotted(node)
  if (isCallExpression(node) && isIdentifier(node.expression)) return `${node.expression.text}()`
  if (isNewExpression(node) && isIdentifier(node.expression) && (node.arguments?.length ?? 0) === 0) return `new ${node.expression.text}()`
  return null
}

/** `a.b.c` when every part is a plain name, else null. */
function dotted(node: Node): string | null {
  if (isIdentifier(node)) return node.text
  if (!isPropertyAccessExpression(node) || !isIdentifier(node.name)) return null
  const left = dotted(node.expression)
  return left === null ? null : `${left}.${node.name.text}`
}

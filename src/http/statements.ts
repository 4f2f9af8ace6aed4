/** Statements of the console language, as an interface: the language and what it works with are above the doors, `server` hands them in. */
export interface StatementRequest {
  readonly source: string
  /** Whether a statement that fails keeps those behind it from running. */
  readonly stopOnError: boolean
}

/** What came of an input. */
export interface StatementAnswer {
  /** HTTP status: 200, or that of the first failure. */
  readonly status: number
  /** JSON. */
  readonly body: string
}

export interface Statements {
  /**
   * Runs an input as this principal, with no other rights than the principal has at any door, in a session that ends with it. Bounded in
   * time, rows and bytes by itself. Never rejects for what the input asks.
   */
  run(principal: string, request: StatementRequest, signal: AbortSignal): Promise<StatementAnswer>
}

/** An error in the shape that the system's own have: callers look at `code`, people read the rest. */
export interface SystemError extends Error {
  readonly code: string
  readonly syscall?: string
  readonly path?: string
}

const TEXTS: Readonly<Record<string, string>> = {
  EACCES: 'it is not permitted',
  EADDRNOTAVAIL: 'this machine does not have the address',
  EBADF: 'the handle is closed',
  ECONNABORTED: 'the connection was given up',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection was cut',
  EADDRINUSE: 'the address is in use',
  EEXIST: 'it exists already',
  EINVAL: 'the argument is not valid',
  EIO: 'the device failed',
  EISDIR: 'it is a directory',
  EFBIG: 'the file is too large',
  EMFILE: 'too many open files',
  ENOTFOUND: 'there is no such host',
  ENOENT: 'it does not exist',
  ENOSPC: 'no space left',
  ENOTDIR: 'it is not a directory',
  ENOTEMPTY: 'the directory is not empty',
  EDQUOT: 'the quota is used up',
  EPERM: 'it is not permitted',
  EROFS: 'the disk is read-only',
  ESPIPE: 'it is a pipe, not a file',
  ETIMEDOUT: 'there was no answer in time',
}

/** Made by virtual devices, and for what a real handle refuses by itself. */
export function systemError(code: string, syscall: string, path?: string, text?: string): SystemError {
  const what = text ?? TEXTS[code] ?? 'the operation failed'
  const error = new Error(`${code}: ${what}, ${syscall}${path === undefined ? '' : ` '${path}'`}`)
  return Object.assign(error, { code, syscall, ...(path === undefined ? {} : { path }) })
}

/** The system's code of an error (`ENOENT`), or null when it carries none. Never looks at the text. */
export function systemCode(error: unknown): string | null {
  const code = error instanceof Error ? (error as Partial<SystemError>).code : undefined
  return typeof code === 'string' ? code : null
}

/** Whether an error says that there is no space left: the one failure that ends by itself. */
export function isDiskFull(error: unknown): boolean {
  const code = systemCode(error)
  return code === 'ENOSPC' || code === 'EDQUOT'
}

/** What went wrong in words: `it does not exist (ENOENT)`. The error's own text when it is none of the system's. */
export function systemReason(error: unknown): string {
  const code = systemCode(error)
  const text = code === null ? undefined : TEXTS[code]
  if (text !== undefined) return `${text} (${code})`
  return error instanceof Error ? error.message : String(error)
}

/**
 * Loads modules that a start does without (codecs, the metrics library). Injected, because a load takes time that a simulation must
 * own. Rejects with the runtime's ERR_MODULE_NOT_FOUND when the package is not installed, which is normal for optional ones.
 */
export interface Loader {
  /** `name` is a package name written in our own code. The same name gives the same module. */
  load(name: string): Promise<unknown>
}

import { execFile } from 'node:child_process'
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export type VolumeKind = 'tmpfs' | 'ext4'

/** Why no volume can be made here; false when one can. Mounting needs root, and some containers refuse even that. */
export async function noVolumes(kind: VolumeKind): Promise<string | false> {
  if (process.getuid?.() !== 0) return 'mounting a file system needs root'
  try {
    await using _ = await SmallVolume.make(kind, 4)
    return false
  } catch (error) {
    return `no ${kind} volume can be made here: ${error instanceof Error ? error.message.split('\n')[0] : error}`
  }
}

/** A small file system of its own: a limit in memory, or ext4 in an image on a loop device. `await using` unmounts and removes it. */
export class SmallVolume implements AsyncDisposable {
  readonly #folder: string
  readonly path: string
  /** Of ext4: the file that holds it. */
  readonly image: string

  private constructor(folder: string) {
    this.#folder = folder
    this.path = join(folder, 'mount')
    this.image = join(folder, 'image')
  }

  static async make(kind: VolumeKind, sizeMib: number, mountOptions = ''): Promise<SmallVolume> {
    const volume = new SmallVolume(await mkdtemp(join(tmpdir(), 'moonmq-volume-')))
    try {
      await run('mkdir', [volume.path])
      if (kind === 'tmpfs') await run('mount', ['-t', 'tmpfs', '-o', `size=${sizeMib}m`, 'tmpfs', volume.path])
      else {
        await run('truncate', ['-s', `${sizeMib}M`, volume.image])
        await run('mkfs.ext4', ['-q', '-F', '-m', '0', volume.image])
        await volume.#mountImage(volume.image, mountOptions)
      }
      return volume
    } catch (error) {
      await volume[Symbol.asyncDispose]()
      throw error
    }
  }

  /** An image that was made elsewhere, mounted here. */
  static async ofCopy(image: string, mountOptions: string): Promise<SmallVolume> {
    const volume = new SmallVolume(await mkdtemp(join(tmpdir(), 'moonmq-volume-')))
    try {
      await run('mkdir', [volume.path])
      await run('cp', ['--sparse=always', image, volume.image])
      await volume.#mountImage(volume.image, mountOptions)
      return volume
    } catch (error) {
      await volume[Symbol.asyncDispose]()
      throw error
    }
  }

  async freeBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.path)
    return bavail * bsize
  }

  async #mountImage(image: string, options: string): Promise<void> {
    await run('mount', ['-o', `loop${options === '' ? '' : `,${options}`}`, image, this.path])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Lazily: a process that was just killed may still hold a file for a moment. Not mounted is fine too.
    await run('umount', ['-l', this.path]).catch(() => {})
    await rm(this.#folder, { recursive: true, force: true })
  }
}

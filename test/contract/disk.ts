import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Disk, type DiskFile, WRITE_NOW_MAX_BYTES } from '../../src/io/disk.ts'

export interface DiskUnderTest {
  readonly disk: Disk
  /** An empty directory of the test's own. */
  readonly base: string
  close(): Promise<void>
}

/** What every disk must do. Run against each implementation by a caller that makes one. */
export function diskContract(name: string, make: () => Promise<DiskUnderTest>): void {
  describe(`disk contract: ${name}`, () => {
    let under: DiskUnderTest
    let disk: Disk
    let count = 0
    before(async () => {
      under = await make()
      disk = under.disk
    })
    after(() => under.close())
    const fresh = async () => {
      const path = `${under.base}/case-${count++}`
      await disk.makeDirectory(path)
      return path
    }
    contents(() => disk, fresh)
    handles(() => disk, fresh)
    names(() => disk, fresh)
    renames(() => disk, fresh)
  })
}

type Fresh = () => Promise<string>

function contents(disk: () => Disk, fresh: Fresh): void {
  it('reads back what was written, at once and later, in parts and over holes', async () => {
    const file = await disk().open(`${await fresh()}/a`, 'write')
    file.writeNow([Buffer.from('hello '), Buffer.alloc(0), Buffer.from('world')], 0)
    assert.equal(file.sizeBytes, 11)
    await file.write([Buffer.from('!')], 20)
    assert.equal(file.sizeBytes, 21)
    assert.equal(await text(file), 'hello world\0\0\0\0\0\0\0\0\0!')
    const part = Buffer.alloc(5)
    assert.equal(file.readNow(part, 6), 5)
    assert.equal(part.toString(), 'world')
    await file.close()
  })

  it('returns fewer bytes at the end and none behind it', async () => {
    const file = await disk().open(`${await fresh()}/a`, 'write')
    file.writeNow([Buffer.from('abc')], 0)
    const target = Buffer.alloc(10, 0x78)
    assert.equal(await file.read(target, 1), 2)
    assert.equal(target.toString(), 'bcxxxxxxxx')
    assert.equal(file.readNow(target, 3), 0)
    assert.equal(await file.read(target, 1000), 0)
    assert.equal(file.readNow(Buffer.alloc(0), 0), 0)
    await file.close()
  })

  it('keeps large files of many parts in order', async () => {
    const file = await disk().open(`${await fresh()}/a`, 'write')
    const parts: Buffer[] = []
    for (let i = 0; i < 3000; i++) parts.push(Buffer.alloc(i % 7 === 0 ? 0 : 300, i & 0xff))
    const all = Buffer.concat(parts)
    await file.write(parts, 17)
    const small = parts.slice(0, 900)
    assert.ok(Buffer.concat(small).length <= WRITE_NOW_MAX_BYTES)
    file.writeNow(small, 17 + all.length)
    const back = Buffer.alloc(all.length)
    assert.equal(await file.read(back, 17), all.length)
    assert.ok(back.equals(all))
    assert.equal(file.sizeBytes, 17 + all.length + Buffer.concat(small).length)
    await file.close()
  })

  it('overwrites in place and truncates both ways, with zeros where it grew', async () => {
    const file = await disk().open(`${await fresh()}/a`, 'write')
    file.writeNow([Buffer.from('abcdefgh')], 0)
    file.writeNow([Buffer.from('XY')], 2)
    assert.equal(await text(file), 'abXYefgh')
    await file.truncate(3)
    assert.equal(file.sizeBytes, 3)
    await file.truncate(6)
    assert.equal(await text(file), 'abX\0\0\0')
    file.writeNow([Buffer.from('z')], 8)
    assert.equal(await text(file), 'abX\0\0\0\0\0z')
    await file.truncate(0)
    assert.equal(await text(file), '')
    await file.close()
  })

  it('syncs, and shows another handle what was written', async () => {
    const path = `${await fresh()}/a`
    const file = await disk().open(path, 'write')
    file.writeNow([Buffer.from('one')], 0)
    await Promise.all([file.datasync(), file.datasync()])
    const other = disk().openNow(path, 'read')
    assert.equal(other.sizeBytes, 3)
    assert.equal(await text(other), 'one')
    await other.close()
    await file.close()
    assert.equal((await disk().stat(path))?.sizeBytes, 3)
  })

  it('refuses a writeNow beyond its limit', async () => {
    const file = await disk().open(`${await fresh()}/a`, 'write')
    assert.throws(() => file.writeNow([Buffer.alloc(WRITE_NOW_MAX_BYTES), Buffer.alloc(1)], 0))
    assert.equal(file.sizeBytes, 0)
    await file.close()
  })
}

function handles(disk: () => Disk, fresh: Fresh): void {
  it('opens as asked: read needs the file, create needs its absence', async () => {
    const base = await fresh()
    await rejectsWith('ENOENT', disk().open(`${base}/a`, 'read'))
    assert.throws(() => disk().openNow(`${base}/a`, 'read'), { code: 'ENOENT' })
    await rejectsWith('ENOENT', disk().open(`${base}/none/a`, 'write'))
    await (await disk().open(`${base}/a`, 'create')).close()
    await rejectsWith('EEXIST', disk().open(`${base}/a`, 'create'))
    await rejectsWith('ENOTDIR', disk().open(`${base}/a/b`, 'write'))
    await rejectsWith('EISDIR', disk().open(base, 'write'))
    await rejectsWith('EISDIR', disk().open(base, 'read'))
  })

  it('finds the size at open', async () => {
    const path = `${await fresh()}/a`
    const file = disk().openNow(path, 'write')
    file.writeNow([Buffer.from('12345')], 0)
    await file.close()
    const again = await disk().open(path, 'write')
    assert.equal(again.sizeBytes, 5)
    assert.equal(again.path, path)
    await again.close()
  })

  it('refuses to write through a handle for reading', async () => {
    const path = `${await fresh()}/a`
    await (await disk().open(path, 'create')).close()
    const file = await disk().open(path, 'read')
    assert.throws(() => file.writeNow([Buffer.from('x')], 0), { code: 'EBADF' })
    await rejectsWith('EBADF', file.write([Buffer.from('x')], 0))
    await rejectsWith('EINVAL', file.truncate(0))
    await file.close()
  })

  it('fails every call after close, with the path in the error', async () => {
    const path = `${await fresh()}/a`
    const file = await disk().open(path, 'write')
    const busy = file.write([Buffer.alloc(1 << 20)], 0)
    await busy
    await file.close()
    assert.throws(() => file.readNow(Buffer.alloc(1), 0), { code: 'EBADF', path })
    assert.throws(() => file.writeNow([Buffer.alloc(1)], 0), { code: 'EBADF', path })
    await rejectsWith('EBADF', file.read(Buffer.alloc(1), 0))
    await rejectsWith('EBADF', file.write([Buffer.alloc(1)], 0))
    await rejectsWith('EBADF', file.datasync())
    await rejectsWith('EBADF', file.truncate(0))
    await rejectsWith('EBADF', file.close())
  })

  it('lets what is under way end before it closes', async () => {
    const path = `${await fresh()}/a`
    const file = await disk().open(path, 'write')
    const write = file.write([Buffer.alloc(1 << 20, 1)], 0)
    const sync = file.datasync()
    const closed = file.close()
    await Promise.all([write, sync, closed])
    assert.equal((await disk().stat(path))?.sizeBytes, 1 << 20)
  })

  it('keeps a removed or replaced file for those who hold it', async () => {
    const base = await fresh()
    const file = await disk().open(`${base}/a`, 'write')
    file.writeNow([Buffer.from('old')], 0)
    await disk().removeFile(`${base}/a`)
    assert.equal(await text(file), 'old')
    file.writeNow([Buffer.from('er')], 3)
    assert.equal(await text(file), 'older')
    await file.datasync()
    await file.close()
    assert.equal(await disk().stat(`${base}/a`), null)
  })
}

function names(disk: () => Disk, fresh: Fresh): void {
  it('tells the space of a volume, and no space of a directory that is missing', async () => {
    const path = await fresh()
    const { freeBytes, totalBytes } = await disk().space(path)
    assert.ok(freeBytes > 0 && freeBytes <= totalBytes)
    await assert.rejects(disk().space(`${path}/missing`), { code: 'ENOENT' })
  })

  it('lists by name, and tells files from directories', async () => {
    const base = await fresh()
    for (const name of ['b', 'a-10', 'a-9', 'B']) await (await disk().open(`${base}/${name}`, 'create')).close()
    await disk().makeDirectory(`${base}/aa/bb/cc`)
    await disk().makeDirectory(`${base}/aa/bb`)
    assert.deepEqual(await disk().list(base), [
      { name: 'B', kind: 'file' },
      { name: 'a-10', kind: 'file' },
      { name: 'a-9', kind: 'file' },
      { name: 'aa', kind: 'directory' },
      { name: 'b', kind: 'file' },
    ])
    assert.deepEqual(await disk().list(`${base}/aa`), [{ name: 'bb', kind: 'directory' }])
    await rejectsWith('ENOENT', disk().list(`${base}/none`))
    await rejectsWith('ENOTDIR', disk().list(`${base}/b`))
    await rejectsWith('EEXIST', disk().makeDirectory(`${base}/b`))
    await rejectsWith('ENOTDIR', disk().makeDirectory(`${base}/b/c`))
  })

  it('says what is there, and null for what is not', async () => {
    const base = await fresh()
    const file = await disk().open(`${base}/a`, 'create')
    file.writeNow([Buffer.from('xyz')], 0)
    await file.close()
    const stat = await disk().stat(`${base}/a`)
    assert.deepEqual([stat?.kind, stat?.sizeBytes], ['file', 3])
    assert.ok(Number.isInteger(stat?.modifiedMs) && (stat?.modifiedMs ?? 0) > 1_500_000_000_000)
    assert.equal((await disk().stat(base))?.kind, 'directory')
    assert.equal(await disk().stat(`${base}/none`), null)
    assert.equal(await disk().stat(`${base}/a/none`), null)
  })

  it('removes files and trees, and does nothing for what is missing', async () => {
    const base = await fresh()
    await disk().makeDirectory(`${base}/t/u`)
    await (await disk().open(`${base}/t/u/a`, 'create')).close()
    await (await disk().open(`${base}/t/b`, 'create')).close()
    await disk().removeFile(`${base}/none`)
    await disk().removeTree(`${base}/none`)
    await assert.rejects(disk().removeFile(`${base}/t`))
    await disk().removeFile(`${base}/t/b`)
    assert.deepEqual(await disk().list(`${base}/t`), [{ name: 'u', kind: 'directory' }])
    await disk().removeTree(`${base}/t`)
    assert.deepEqual(await disk().list(base), [])
    await (await disk().open(`${base}/f`, 'create')).close()
    await disk().removeTree(`${base}/f`)
    assert.deepEqual(await disk().list(base), [])
  })

  it('syncs directories', async () => {
    const base = await fresh()
    await (await disk().open(`${base}/a`, 'create')).close()
    await Promise.all([disk().syncDirectory(base), disk().syncDirectory(base), disk().syncDirectory(base)])
    await rejectsWith('ENOENT', disk().syncDirectory(`${base}/none`))
  })
}

function renames(disk: () => Disk, fresh: Fresh): void {
  it('renames files over files and directories with all that is in them', async () => {
    const base = await fresh()
    await put(disk(), `${base}/a`, 'new')
    await put(disk(), `${base}/b`, 'old')
    await disk().rename(`${base}/a`, `${base}/b`)
    assert.equal(await get(disk(), `${base}/b`), 'new')
    assert.equal(await disk().stat(`${base}/a`), null)
    await disk().makeDirectory(`${base}/d`)
    await put(disk(), `${base}/d/c`, 'inside')
    await disk().rename(`${base}/d`, `${base}/e`)
    assert.equal(await get(disk(), `${base}/e/c`), 'inside')
    await disk().rename(`${base}/e/c`, `${base}/c`)
    assert.deepEqual(await disk().list(`${base}/e`), [])
    await disk().rename(`${base}/c`, `${base}/c`)
    assert.equal(await get(disk(), `${base}/c`), 'inside')
  })

  it('refuses renames that make no sense', async () => {
    const base = await fresh()
    await put(disk(), `${base}/a`, 'x')
    await disk().makeDirectory(`${base}/d/sub`)
    await disk().makeDirectory(`${base}/empty`)
    await rejectsWith('ENOENT', disk().rename(`${base}/none`, `${base}/b`))
    await rejectsWith('ENOENT', disk().rename(`${base}/a`, `${base}/none/b`))
    await rejectsWith('EISDIR', disk().rename(`${base}/a`, `${base}/empty`))
    await rejectsWith('ENOTDIR', disk().rename(`${base}/empty`, `${base}/a`))
    await rejectsWith('ENOTEMPTY', disk().rename(`${base}/empty`, `${base}/d`))
    await rejectsWith('EINVAL', disk().rename(`${base}/d`, `${base}/d/sub/d`))
    await disk().rename(`${base}/d/sub`, `${base}/empty`)
    assert.deepEqual(await disk().list(`${base}/d`), [])
  })

  it('keeps a handle on the file that was renamed', async () => {
    const base = await fresh()
    const file = await disk().open(`${base}/a`, 'create')
    await disk().rename(`${base}/a`, `${base}/b`)
    file.writeNow([Buffer.from('after')], 0)
    await file.close()
    assert.equal(await get(disk(), `${base}/b`), 'after')
  })
}

async function put(disk: Disk, path: string, content: string): Promise<void> {
  const file = await disk.open(path, 'write')
  file.writeNow([Buffer.from(content)], 0)
  await file.close()
}

async function get(disk: Disk, path: string): Promise<string> {
  const file = await disk.open(path, 'read')
  const content = await text(file)
  await file.close()
  return content
}

async function text(file: DiskFile): Promise<string> {
  const bytes = Buffer.alloc(file.sizeBytes + 1)
  return bytes.toString('utf8', 0, await file.read(bytes, 0))
}

async function rejectsWith(code: string, work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, { code })
}

import { closeSync, constants, fdatasync, fsyncSync, openSync, write, writeSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const datasync = promisify(fdatasync)
const AREA_BYTES = 16 * 1024 * 1024
const SIZES = [1100, 4096, 65_536, 1_048_576]
const ROUNDS = 5
const WRITES = 60

interface Way {
  readonly name: string
  run(bytes: Buffer, position: number): Promise<unknown>
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

/** What the device and the system make of one durable write, and of a write alone; every way takes its turn in each round. */
export async function deviceCosts(folder: string): Promise<void> {
  const paths = ['growing', 'full'].map((name) => join(folder, name))
  const [growingPath = '', fullPath = ''] = paths
  const growing = openSync(growingPath, 'w+')
  const full = openSync(fullPath, 'w+')
  writeSync(full, Buffer.alloc(AREA_BYTES), 0, AREA_BYTES, 0)
  fsyncSync(full)
  const synchronous = openSync(fullPath, constants.O_RDWR | constants.O_DSYNC)
  const pooled = (fd: number, bytes: Buffer, position: number) =>
    new Promise<void>((resolve, reject) => {
      write(fd, bytes, 0, bytes.length, position, (error) => (error ? reject(error) : resolve()))
    })
  let end = 0
  const durable: Way[] = [
    {
      name: 'file that grows, fdatasync',
      run: (bytes) => {
        writeSync(growing, bytes, 0, bytes.length, end)
        end += bytes.length
        return datasync(growing)
      },
    },
    {
      name: 'file written before, fdatasync',
      run: (bytes, position) => {
        writeSync(full, bytes, 0, bytes.length, position)
        return datasync(full)
      },
    },
    { name: 'file written before, O_DSYNC', run: (bytes, position) => pooled(synchronous, bytes, position) },
  ]
  const cached: Way[] = [
    { name: 'page cache, on the thread', run: async (bytes, position) => writeSync(full, bytes, 0, bytes.length, position) },
    { name: 'page cache, through the pool', run: (bytes, position) => pooled(full, bytes, position) },
  ]
  for (const [title, ways] of [
    ['durable write', durable],
    ['write alone', cached],
  ] as const) {
    for (const size of SIZES) await compare(title, ways, Buffer.alloc(size, 'x'))
  }
  for (const fd of [growing, full, synchronous]) closeSync(fd)
  for (const path of paths) await rm(path)
}

async function compare(title: string, ways: readonly Way[], bytes: Buffer): Promise<void> {
  const micros = ways.map(() => [] as number[])
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, way] of ways.entries()) {
      for (let count = 0, position = 0; count < WRITES; count++) {
        const startMs = performance.now()
        await way.run(bytes, position)
        micros[index]?.push((performance.now() - startMs) * 1000)
        position = (position + bytes.length) % (AREA_BYTES - bytes.length)
      }
    }
  }
  const medians = micros.map(median)
  const shown = ways.map(
    (way, index) => `${way.name} ${(medians[index] ?? 0).toFixed(1)} µs (${((medians[index] ?? 0) / (medians[0] ?? 1)).toFixed(2)})`,
  )
  console.log(`${title}, ${bytes.length} bytes: ${shown.join('; ')}`)
}

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { OrderDatabase } from './orders.ts'
import type { Prepared } from './two-phase-producer.ts'

const run = promisify(execFile)

/** Orders in PostgreSQL, through its own command line program. `args` are those of `psql` that say which database. */
export class PostgresOrders implements OrderDatabase {
  readonly #args: readonly string[]

  constructor(args: readonly string[]) {
    this.#args = args
  }

  async #query(sql: string): Promise<string> {
    const { stdout } = await run('psql', [...this.#args, '-v', 'ON_ERROR_STOP=1', '-qAtX', '-c', sql])
    return stdout.trim()
  }

  async createTables(): Promise<void> {
    await this.#query(`
      CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, name text NOT NULL);
      CREATE TABLE IF NOT EXISTS moonmq_transaction (one boolean PRIMARY KEY DEFAULT true CHECK (one), producer_id bigint, producer_epoch int)`)
  }

  /** One transaction of PostgreSQL: the statements of one command are. */
  async commit(order: string, { producerId, producerEpoch }: Prepared): Promise<void> {
    await this.#query(`
      INSERT INTO orders (name) VALUES ('${order.replaceAll("'", "''")}');
      INSERT INTO moonmq_transaction (producer_id, producer_epoch) VALUES (${producerId}, ${producerEpoch})
        ON CONFLICT (one) DO UPDATE SET producer_id = EXCLUDED.producer_id, producer_epoch = EXCLUDED.producer_epoch`)
  }

  async lastCommitted(): Promise<Prepared | null> {
    const row = await this.#query('SELECT producer_id, producer_epoch FROM moonmq_transaction')
    if (row === '') return null
    const [producerId, producerEpoch] = row.split('|')
    return { producerId: Number(producerId), producerEpoch: Number(producerEpoch) }
  }

  async orders(): Promise<string[]> {
    const rows = await this.#query('SELECT name FROM orders ORDER BY id')
    return rows === '' ? [] : rows.split('\n')
  }
}

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sniff } from '../../../src/server/sniff.ts'

const kindOf = (...bytes: number[]) => {
  const sniffed = sniff(Buffer.from(bytes))
  return sniffed.kind === 'protocol' ? sniffed.protocol : sniffed.kind
}
const kindOfText = (text: string) => kindOf(...Buffer.from(text, 'latin1'))

describe('telling protocols apart', () => {
  it('a zero fifth byte is Kafka, anything else is native', () => {
    assert.equal(kindOf(0, 0, 0, 20, 0), 'kafka')
    assert.equal(kindOf(0, 0, 0, 5, 0, 18), 'kafka')
    for (const opcode of [1, 2, 0x40, 0x5f, 0xff]) assert.equal(kindOf(0, 0, 0, 20, opcode), 'native')
  })

  it('waits for five bytes where they are needed', () => {
    assert.equal(kindOf(), 'more')
    assert.equal(kindOf(0), 'more')
    assert.equal(kindOf(0, 0, 0), 'more')
    assert.equal(kindOf(0, 0, 0, 5), 'more')
    assert.equal(kindOfText('GET '), 'more')
  })

  it('TLS at its first byte', () => {
    assert.equal(kindOf(0x16), 'tls')
    assert.equal(kindOf(0x16, 3, 1, 2, 0), 'tls')
  })

  it('HTTP and PROXY', () => {
    for (const line of ['GET / HTTP/1.1', 'POST /x', 'PUT /x', 'HEAD /', 'get / h', 'OPTIONS *'])
      assert.equal(kindOfText(line), 'http', line)
    assert.equal(kindOfText('PROXY TCP4 1.2.3.4'), 'proxy')
    assert.equal(kindOf(0x0d, 0x0a, 0x0d, 0x0a), 'proxy')
    assert.equal(kindOf(0x0d, 0x0a, 0x0d, 0x0a, 0), 'proxy')
  })

  it('lengths below 5 and above 100 MiB are refused on four bytes', () => {
    for (const length of [0, 1, 4]) assert.deepEqual(sniff(Buffer.from([0, 0, 0, length])), { kind: 'length', length })
    assert.equal(kindOf(0x06, 0x40, 0, 0, 0), 'kafka', '100 MiB')
    assert.deepEqual(sniff(Buffer.from([0x06, 0x40, 0, 1])), { kind: 'length', length: 100 * 1024 * 1024 + 1 })
    assert.equal(kindOf(0xff, 0xff, 0xff, 0xff), 'length')
    assert.equal(kindOf(0x80, 0, 0, 0), 'length')
  })

  it('says something about any five bytes', () => {
    for (let first = 0; first < 256; first++) {
      for (const rest of [0, 1, 0x41, 0xff]) assert.notEqual(kindOf(first, rest, rest, rest, rest), 'more')
    }
  })
})

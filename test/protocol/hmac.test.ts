import { createHmac, createSecretKey } from 'node:crypto';
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { computeHmac, HmacBuffer, padsOf, verifyHmac } from '../../src/protocol/hmac.ts';
import { fc } from '../support/properties.ts';

const keyOf = (secret: string | Uint8Array) => createSecretKey(Buffer.from(secret));
const byLibrary = (secret: string | Uint8Array, text: string) =>
  createHmac('sha256', Buffer.from(secret)).update(text).digest('base64url');

describe('hmacOf', () => {
  // RFC 4231, test cases 1, 2 and 6: the last key is longer than a block.
  it.each([
    [Buffer.alloc(20, 0x0b), 'Hi There', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
    ['Jefe', 'what do ya want for nothing?', '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'],
    [
      Buffer.alloc(131, 0xaa),
      'Test Using Larger Than Block-Size Key - Hash Key First',
      '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
    ],
  ])('matches RFC 4231, %#', (secret, text, tag) => {
    expect(Buffer.from(computeHmac(keyOf(secret), text), 'base64url').toString('hex')).toBe(tag);
  });

  it('equals node:crypto for keys of every length and texts with any characters', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 140 }),
        fc.array(fc.string({ unit: 'binary', maxLength: 400 }), { minLength: 1, maxLength: 4 }),
        (secret, texts) => {
          const key = keyOf(secret);
          for (const text of texts) expect(computeHmac(key, text)).toBe(byLibrary(secret, text));
        },
      ),
      { numRuns: 300 },
    );
  });

  it.each(['a', 'é', '€', '😀', '\ud800'])(
    'equals node:crypto for every length around a block and around the buffer size, of %j',
    (unit) => {
      const secret = 'xoyWPVo6bn4NumteC5zehYZQ1Hp1evxiRWejXgC8k7o';
      const key = keyOf(secret);
      for (const middle of [0, 64, 128, 1_024, 2_048, 3_072, 6_144, 70_000]) {
        for (let length = Math.max(0, middle - 6); length <= middle + 6; length += 1) {
          const text = unit.repeat(length);
          expect(computeHmac(key, text)).toBe(byLibrary(secret, text));
          // A longer text before it has no effect.
          expect(computeHmac(key, unit)).toBe(byLibrary(secret, unit));
        }
      }
    },
  );

  it('keeps keys apart when used in turn', () => {
    const secrets = ['one', 'other', 'one\0', 'x'.repeat(64), 'x'.repeat(65)];
    const keys = secrets.map((secret) => [secret, keyOf(secret)] as const);
    for (const text of ['a', 'b', 'a']) {
      for (const [secret, key] of keys) expect(computeHmac(key, text)).toBe(byLibrary(secret, text));
    }
  });

  it('leaves a used key as empty as before when it is printed', () => {
    const secret = 'xoyWPVo6bn4NumteC5zehYZQ1Hp1evxiRWejXgC8k7o';
    const key = keyOf(secret);
    const blank = inspect(key, { depth: 9, showHidden: true });
    computeHmac(key, 'text');
    expect(inspect(key, { depth: 9, showHidden: true })).toBe(blank);
    expect(Reflect.ownKeys(key)).toEqual(Reflect.ownKeys(keyOf(secret)));
    expect(JSON.stringify(key)).toBe('{}');
  });
});

describe('isHmacOf', () => {
  const key = keyOf('Jefe');
  const tag = computeHmac(key, 'text');

  it('accepts the exact tag only', () => {
    expect(tag).toHaveLength(43);
    expect(verifyHmac(key, 'text', tag)).toBe(true);
    expect(verifyHmac(key, 'text', tag)).toBe(true);
    expect(verifyHmac(key, 'other', tag)).toBe(false);
    expect(verifyHmac(keyOf('jefe'), 'text', tag)).toBe(false);
    for (let at = 0; at < tag.length; at += 1) {
      // Characters with the same low byte or the same high byte.
      for (const code of [tag.charCodeAt(at) + 0x100, tag.charCodeAt(at) ^ 1]) {
        expect(verifyHmac(key, 'text', tag.slice(0, at) + String.fromCharCode(code) + tag.slice(at + 1))).toBe(false);
      }
    }
  });

  it('accepts nothing shorter or longer, even starting with the tag', () => {
    for (const text of ['', tag.slice(0, -1), `${tag}=`, `${tag}A`, `${tag}${tag}`]) {
      expect(verifyHmac(key, 'text', tag)).toBe(true);
      expect(verifyHmac(key, 'text', text)).toBe(false);
    }
  });

  it('accepts the tag also of written bytes, up to their end', () => {
    const buffer = new HmacBuffer();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 700 }), fc.nat(60), fc.nat(42), (bytes, before, at) => {
        const text = Buffer.from(bytes).toString('latin1');
        const length = buffer.text.write(text);
        const message = Buffer.from(`${'x'.repeat(before)}${computeHmac(key, text)}x`);
        expect(buffer.verify(padsOf(key), length, message, before)).toBe(true);
        expect(buffer.verify(padsOf(key), length + 1, message, before)).toBe(false);
        expect(buffer.verify(padsOf(keyOf('jefe')), length, message, before)).toBe(false);
        expect(buffer.verify(padsOf(key), length, message, before + 1)).toBe(false);
        message[before + at] = (message[before + at] as number) ^ 1;
        expect(buffer.verify(padsOf(key), length, message, before)).toBe(false);
      }),
    );
  });

  it('works with a key that was posted to another thread', async () => {
    const source = `
      const { parentPort, workerData } = require('node:worker_threads');
      import(workerData.module).then(({ computeHmac, verifyHmac }) =>
        parentPort.postMessage([computeHmac(workerData.key, 'text'), verifyHmac(workerData.key, 'text', workerData.tag)]));`;
    const module = new URL('../../src/protocol/hmac.ts', import.meta.url).href;
    const worker = new Worker(source, { eval: true, workerData: { module, key, tag } });
    const answer = await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
    await worker.terminate();
    expect(answer).toEqual([tag, true]);
  });
});

import { afterEach, describe, expect, it, vi } from 'vitest';
import { publicRandom } from '../../src/domain/public-random.ts';
import { newId } from '../../src/main/ids.ts';
import { newNonce } from '../../src/protocol/signature.ts';

const MANY = 20_000;

describe('an id', () => {
  const ids = Array.from({ length: MANY }, newId);

  it('is a UUIDv7 of its time', () => {
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const at = Number.parseInt((newId().slice(0, 8) + newId().slice(9, 13)) as string, 16);
    expect(Math.abs(Date.now() - at)).toBeLessThan(60_000);
  });

  it('is unique, and sorts after every earlier one', () => {
    expect(new Set(ids).size).toBe(MANY);
    expect(ids).toEqual(ids.toSorted());
  });
});

describe('an id while the clock is set back or stopped', () => {
  afterEach(() => vi.restoreAllMocks());

  it('still sorts after every earlier one', () => {
    const now = Date.now();
    const clock = vi.spyOn(Date, 'now');
    const ids = [0, 0, -60_000, -1, 0, 1, 1, -86_400_000, 2].flatMap((step) => {
      clock.mockReturnValue(now + step);
      return Array.from({ length: 600 }, newId);
    });
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toEqual(ids.toSorted());
  });
});

describe('public randomness', () => {
  it('never repeats', () => {
    const nonces = Array.from({ length: MANY }, newNonce);
    expect(new Set(nonces).size).toBe(MANY);
    expect(nonces.every((nonce) => /^[\w-]{16}$/.test(nonce))).toBe(true);
    const texts = Array.from({ length: MANY }, (_, n) => publicRandom(8 + (n % 57)).toString('hex'));
    expect(new Set(texts).size).toBe(MANY);
  });

  it('uses all its bits', () => {
    const seen = Buffer.alloc(16);
    for (let n = 0; n < 1_000; n += 1)
      for (const [at, byte] of publicRandom(16).entries()) seen[at] = (seen[at] ?? 0) | byte;
    expect(seen.every((byte) => byte === 255)).toBe(true);
  });
});

import { createHash, hash, randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { done, refuse } from '../../src/domain/refusals.ts';
import { type Grant, Handshakes, userCodeOf } from '../../src/services/handshakes.ts';
import { type TestClock, testClock } from '../support/clock.ts';
import { MemoryCache } from '../support/memory-cache.ts';

const GRANT: Grant = {
  userId: '0195d9a2-7f00-7000-8000-000000000005',
  scopes: ['read:devices'],
  parent: 'j1',
  signedInAt: 1_700_000_000_000,
};
const random = () => randomBytes(32).toString('base64url');
const keep = async (grant: Grant) => done(grant);

let clock: TestClock;
let cache: MemoryCache;
let handshakes: Handshakes;
let [code, verifier, challenge] = ['', '', ''];
beforeEach(() => {
  clock = testClock();
  cache = new MemoryCache(clock);
  handshakes = new Handshakes({ sealedCache: cache, cache, clock });
  code = random();
  verifier = random();
  challenge = hash('sha256', verifier, 'base64url');
});

const open = () => handshakes.open(code, challenge);
const approve = (userCode = userCodeOf(code)) => handshakes.approve(code, userCode, GRANT);
const poll = (presented = verifier) => handshakes.poll(code, presented, keep);
const refused = (as: string) => ({ ok: false, refusal: { code: as } });

describe('the user code', () => {
  it('is the first 6 characters of the base32 of the code’s SHA-256', () => {
    for (let n = 0; n < 200; n++) {
      const some = random();
      const bits = [...createHash('sha256').update(some).digest()]
        .map((byte) => byte.toString(2).padStart(8, '0'))
        .join('');
      const letters = (bits.slice(0, 30).match(/.{5}/g) ?? []).map(
        (five) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[Number.parseInt(five, 2)],
      );
      expect(userCodeOf(some)).toBe(letters.join(''));
    }
  });

  it('can be typed in lower case, with blanks and dashes', async () => {
    await open();
    const [a, b] = [userCodeOf(code).slice(0, 3).toLowerCase(), userCodeOf(code).slice(3)];
    expect(await approve(` ${a}-${b} `)).toMatchObject({ ok: true });
  });
});

describe('a handshake', () => {
  it('is unknown before its page was opened, pending afterwards, then approved once, then gone', async () => {
    expect(await poll()).toMatchObject(refused('NOT_FOUND'));
    expect(await open()).toMatchObject({ ok: true, value: { openedAt: clock.now(), until: clock.now() + 600_000 } });
    expect(await poll()).toEqual(done(null));
    await approve();
    expect(await poll()).toEqual(done(GRANT));
    expect(await poll()).toMatchObject(refused('GONE'));
    expect(await open()).toMatchObject(refused('GONE'));
    expect(await approve()).toMatchObject(refused('GONE'));
  });

  it('returns the token once for concurrent requests', async () => {
    await open();
    await approve();
    const answers = await Promise.all([1, 2, 3, 4, 5].map(() => poll()));
    expect(answers.filter(({ ok }) => ok)).toEqual([done(GRANT)]);
  });

  it('keeps the grant when the token could not be created', async () => {
    await open();
    await approve();
    await expect(
      handshakes.poll(code, verifier, async () => {
        throw new Error('the store is away');
      }),
    ).rejects.toThrow('away');
    expect(await poll()).toEqual(done(GRANT));
  });

  it('ends when the user of the grant no longer exists', async () => {
    await open();
    await approve();
    expect(await handshakes.poll(code, verifier, async () => refuse('GONE', 'x'))).toMatchObject(refused('GONE'));
    expect(await poll()).toMatchObject(refused('GONE'));
  });

  it('lasts until 10 minutes after the opening', async () => {
    await open();
    clock.advance(599_999);
    expect(await poll()).toEqual(done(null));
    expect(await open()).toMatchObject({ ok: true });
    await approve();
    clock.advance(1);
    expect(await poll()).toMatchObject(refused('GONE'));
    expect(await approve()).toMatchObject(refused('GONE'));
    clock.advance(599_999);
    expect(await poll()).toMatchObject(refused('GONE'));
    clock.advance(1);
    expect(await poll()).toMatchObject(refused('NOT_FOUND'));
  });

  it('reveals nothing without the verifier, not even that it has ended', async () => {
    await open();
    for (const wrong of ['', challenge, code, random()]) expect(await poll(wrong)).toMatchObject(refused('FORBIDDEN'));
    await approve();
    expect(await poll(random())).toMatchObject(refused('FORBIDDEN'));
    await poll();
    expect(await poll(random())).toMatchObject(refused('FORBIDDEN'));
  });

  it('ends with the fifth wrong user code, for any later input', async () => {
    await open();
    for (let n = 0; n < 4; n++) expect(await approve('AAAAAA')).toMatchObject(refused('FORBIDDEN'));
    expect(await poll()).toEqual(done(null));
    expect(await approve('AAAAAA')).toMatchObject(refused('FORBIDDEN'));
    expect(await approve()).toMatchObject(refused('GONE'));
    expect(await poll()).toMatchObject(refused('GONE'));
  });

  it('counts concurrent wrong codes', async () => {
    await open();
    const answers = await Promise.all([...Array.from({ length: 8 }, () => approve('AAAAAA')), approve()]);
    expect(answers.every(({ ok }) => !ok)).toBe(true);
  });

  it('ends when another client opens its code with a different challenge', async () => {
    await open();
    expect(await handshakes.open(code, hash('sha256', random(), 'base64url'))).toMatchObject(refused('GONE'));
    expect(await approve()).toMatchObject(refused('GONE'));
    expect(await poll()).toMatchObject(refused('GONE'));
  });

  it('has a code and a challenge of 32 bytes', async () => {
    for (const bad of ['', 'x', 'A'.repeat(42), 'A'.repeat(44), `${'A'.repeat(42)}=`, '../'.repeat(14)]) {
      expect(await handshakes.open(bad, challenge)).toMatchObject(refused('VALIDATION_FAILED'));
      expect(await handshakes.open(code, bad)).toMatchObject(refused('VALIDATION_FAILED'));
      expect(await handshakes.poll(bad, verifier, keep)).toMatchObject(refused('NOT_FOUND'));
      expect(await handshakes.approve(bad, 'AAAAAA', GRANT)).toMatchObject(refused('NOT_FOUND'));
    }
  });

  it('is stored without its code', async () => {
    const keys: string[] = [];
    const { set } = cache;
    cache.set = (key, value, ttl) => {
      keys.push(key, value);
      return set.call(cache, key, value, ttl);
    };
    await open();
    await approve();
    expect(keys.length).toBe(4);
    for (const text of keys) expect(text).not.toContain(code);
  });
});

it('a sign-in that a newer build has stored continues, without the members that this build does not know', async () => {
  await open();
  const key = `handshake:${hash('sha256', code, 'base64url')}`;
  const stored = JSON.parse((await cache.get(key)) ?? '');
  await cache.set(key, JSON.stringify({ ...stored, added: 'by a newer build' }), 60_000);
  expect(await approve()).toMatchObject({ ok: true });
  expect(await poll()).toMatchObject({ ok: true, value: GRANT });
});

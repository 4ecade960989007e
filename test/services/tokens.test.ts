import { createHmac } from 'node:crypto';
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  importTokenKey,
  loadRevocations,
  publicJwksOf,
  signToken,
  TOKEN_AUDIENCE,
  TOKEN_ISSUER,
  type TokenKey,
  verifyToken,
} from '../../src/services/tokens.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';
import { testClock } from '../support/clock.ts';
import { MemoryStore } from '../support/memory-store.ts';

const now = Date.UTC(2026, 2, 1);
const at = now / 1000;
let key: TokenKey;
let other: TokenKey;

async function newKey(): Promise<TokenKey> {
  const { privateKey } = await generateKeyPair('EdDSA', { extractable: true });
  return importTokenKey(await exportJWK(privateKey));
}
beforeAll(async () => {
  key = await newKey();
  other = await newKey();
});

interface Made {
  claims?: Record<string, unknown>;
  header?: Record<string, unknown>;
  by?: TokenKey;
}
const make = ({ claims = {}, header = {}, by = key }: Made = {}) =>
  new SignJWT({ iss: TOKEN_ISSUER, aud: TOKEN_AUDIENCE, sub: 'ada', iat: at, exp: at + 3600, ...claims })
    .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT', ...header })
    .sign(by.private);

describe('an internal token', () => {
  it('contains the user, the expiry and the scopes', async () => {
    const token = await signToken(key, { sub: 'ada', email: 'ada@example.com', jti: 'j1', ttlS: 60 }, now);
    expect(await verifyToken(key, token, now)).toEqual({
      iss: 'urn:twinkeep',
      sub: 'ada',
      userId: null,
      email: 'ada@example.com',
      emailVerified: true,
      scopes: null,
      platformAdmin: false,
      token: { id: 'j1', expiresAt: now + 60_000, signedInAt: at * 1000 },
    });
  });

  it('contains when its user signed in, and which token approved it', async () => {
    const made = { sub: 'ada', jti: 'j2', parent: 'j1', signedInAt: now - 3_600_000 };
    const claims = await verifyToken(key, await signToken(key, made, now), now);
    expect(claims?.token).toMatchObject({ parent: 'j1', signedInAt: (at - 3600) * 1000 });
    const issued = await verifyToken(key, await make(), now);
    expect(issued?.token).toMatchObject({ signedInAt: at * 1000 });
    expect(issued?.token).not.toHaveProperty('parent');
    for (const wrong of [{ parent: 7 }, { parent: '' }, { auth_time: 'now' }, { auth_time: null }]) {
      expect(await verifyToken(key, await make({ claims: wrong }), now)).toBeNull();
    }
  });

  it('has a sign-in in whole milliseconds, not after now, or none', async () => {
    const signedInAt = async (auth_time: number) =>
      (await verifyToken(key, await make({ claims: { auth_time } }), now))?.token.signedInAt;
    expect(await signedInAt(1_700_000_000.123_456)).toBe(1_700_000_000_123);
    expect([await signedInAt(at + 20), await signedInAt(-1)]).toEqual([now, undefined]);
    expect(await verifyToken(key, await make({ claims: { auth_time: at + 60 } }), now)).toBeNull();
    const exp = at + 3_600.000_4;
    expect((await verifyToken(key, await make({ claims: { exp } }), now))?.token.expiresAt).toBe(
      Math.floor(exp * 1000),
    );
  });

  it('makes a platform operator by its scope, and is limited to the known scopes that it names', async () => {
    const scope = 'platform:admin read:devices openid';
    const claims = await verifyToken(key, await make({ claims: { scope } }), now);
    expect(claims).toMatchObject({ platformAdmin: true, scopes: ['read:devices'] });
  });

  it.each([
    ['platform:admin', true, null],
    ['platform:admin openid', true, []],
    ['openid profile', false, []],
    ['read:device', false, []],
    ['', false, []],
  ])('with the scope %j is an operator: %j, limited to %j', async (scope, platformAdmin, scopes) => {
    const claims = await verifyToken(key, await make({ claims: { scope } }), now);
    expect(claims).toMatchObject({ platformAdmin, scopes });
  });

  it('can name a user by id, and is invalid if that is not an id', async () => {
    const userId = '0195d9a2-7f00-7000-8000-000000000005';
    const token = await signToken(key, { sub: 'ada', userId, jti: 'j1' }, now);
    expect(await verifyToken(key, token, now)).toMatchObject({ sub: 'ada', userId });
    for (const user_id of ['x', '', 7, {}, [userId]]) {
      expect(await verifyToken(key, await make({ claims: { user_id } }), now)).toBeNull();
    }
  });

  it('is identified by its hash if it has no id', async () => {
    const claims = await verifyToken(key, await make(), now);
    expect(claims?.token.id).toMatch(/^sha256:[\w-]{43}$/);
  });

  it('has one hash for every encoding of its signature', async () => {
    const token = await make();
    // Two of the last character's six bits are unused in an encoding of 64 bytes.
    const last = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'.indexOf(token.at(-1) as string);
    const rewritten = `${token.slice(0, -1)}${'BRhx'[last >> 4]}`;
    expect(rewritten).not.toBe(token);
    const claims = await verifyToken(key, rewritten, now);
    expect(claims?.token.id).toBe((await verifyToken(key, token, now))?.token.id);
  });

  it('is valid until 30 seconds after its expiry', async () => {
    const token = await make({ claims: { exp: at + 60 } });
    expect(await verifyToken(key, token, now + 89_000)).not.toBeNull();
    expect(await verifyToken(key, token, now + 91_000)).toBeNull();
  });

  it.each<[string, Made]>([
    ['another key', { by: undefined as never }],
    ['another issuer', { claims: { iss: 'https://elsewhere.example' } }],
    ['another audience', { claims: { aud: 'elsewhere' } }],
    ['no audience', { claims: { aud: undefined } }],
    ['no exp', { claims: { exp: undefined } }],
    ['no sub', { claims: { sub: undefined } }],
    ['an empty sub', { claims: { sub: '' } }],
    ['a sub that is a number', { claims: { sub: 7 } }],
    ['a sub of 256 characters', { claims: { sub: 'x'.repeat(256) } }],
    ['NUL in its sub', { claims: { sub: 'a\0b' } }],
    ['an exp that is a text', { claims: { exp: '9999999999' } }],
    ['an exp long past', { claims: { iat: at - 7200, exp: at - 3600 } }],
    ['a life of more than 24 hours', { claims: { exp: at + 86_401 } }],
    ['a life of more than 24 hours without iat', { claims: { iat: undefined, exp: at + 86_500 } }],
    ['an iat in the future', { claims: { iat: at + 60, exp: at + 3600 } }],
    ['an nbf in the future', { claims: { nbf: at + 60 } }],
    ['another type', { header: { typ: 'secevent+jwt' } }],
    ['an unknown critical header', { header: { crit: ['x'], x: 1 } }],
    ['a scope that is a list', { claims: { scope: ['platform:admin'] } }],
  ])('with %s is invalid', async (name, made) => {
    const token = await make(name === 'another key' ? { by: other } : made).catch(() => 'not.even.signed');
    expect(await verifyToken(key, token, now)).toBeNull();
  });

  it('is invalid when unsigned, or signed with the public key as a secret', async () => {
    const unsigned = new UnsecuredJWT({ sub: 'ada', iss: TOKEN_ISSUER, aud: TOKEN_AUDIENCE, exp: at + 60 }).encode();
    const [, payload] = (await make()).split('.');
    const header = Buffer.from('{"alg":"HS256","typ":"JWT"}').toString('base64url');
    const secret = Buffer.from(key.publicJwk.x as string, 'base64url');
    const mac = createHmac('sha256', secret).update(`${header}.${payload}`).digest('base64url');
    for (const token of [unsigned, `${header}.${payload}.${mac}`, '', '..', 'a.b.c', 'x'.repeat(5000)]) {
      expect(await verifyToken(key, token, now)).toBeNull();
    }
  });

  it('cannot be created for more than 24 hours', () => {
    expect(() => signToken(key, { sub: 'ada', jti: 'j', ttlS: 86_401 }, now)).toThrow(/24 hours/);
    expect(() => signToken(key, { sub: 'ada', jti: 'j', ttlS: 0 }, now)).toThrow(RangeError);
  });
});

describe('a change of the signing key', () => {
  it('leaves tokens of the next and the previous key valid, and no others', async () => {
    const [next, previous] = [await newKey(), await newKey()];
    const signing: TokenKey = { ...key, accepted: [next, previous] };
    for (const by of [key, next, previous]) {
      expect(await verifyToken(signing, await signToken(by, { sub: 'ada', jti: 'x' }, now), now)).not.toBeNull();
    }
    expect(await verifyToken(signing, await signToken(other, { sub: 'ada', jti: 'x' }, now), now)).toBeNull();
    expect(await verifyToken(signing, await make({ by: other, header: { kid: previous.kid } }), now)).toBeNull();
    expect(
      await verifyToken(signing, await signToken(previous, { sub: 'ada', jti: 'x' }, now), now + 3_631_000),
    ).toBeNull();
  });

  it('shows each key once in the JWKS, the current one first', async () => {
    const next = await newKey();
    expect(publicJwksOf({ ...key, accepted: [next, key] })).toEqual([key.publicJwk, next.publicJwk]);
  });
});

describe('the signing key', () => {
  it('shows its public part only', () => {
    expect(Object.keys(key.publicJwk).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x']);
  });

  it('is refused if it is not a private Ed25519 key', async () => {
    await expect(importTokenKey(key.publicJwk)).rejects.toThrow(/private JWK/);
    await expect(importTokenKey({ kty: 'oct', k: 'AAAA' })).rejects.toThrow(/private JWK/);
  });
});

describe('revocations', () => {
  it('apply at once, after a restart, and until the token would be refused for its expiry', async () => {
    const store = new MemoryStore();
    const clock = testClock(now);
    const revocations = await loadRevocations(store.identity, clock);
    const received: string[] = [];
    const stop = revocations.subscribe((id) => received.push(id));
    await revocations.add('j1', now + 1_000);
    expect([revocations.has('j1'), revocations.has('j2'), received]).toEqual([true, false, ['j1']]);
    expect((await loadRevocations(store.identity, clock)).has('j1')).toBe(true);
    clock.advance(30_000);
    stop();
    await revocations.add('j2', now + 60_000);
    expect([revocations.has('j1'), received]).toEqual([true, ['j1']]);
    clock.advance(86_400_000);
    await revocations.add('j3', clock.now() + 60_000);
    expect(revocations.has('j1')).toBe(false);
  });

  it.each([
    ['took effect', true],
    ['had no effect', false],
  ])('apply after a commit with an unknown outcome that %s, once the store answers', async (_, hasEffect) => {
    const store = new MemoryStore();
    const { revokeToken } = store.identity;
    let attempts = 0;
    store.identity.revokeToken = async (...given) => {
      attempts += 1;
      if (attempts === 1 && hasEffect) await revokeToken(...given);
      if (attempts === 1) throw new CommitUnknown('connection lost');
      if (attempts === 2) throw new StoreUnavailable('no connection');
      return revokeToken(...given);
    };
    const clock = testClock(now);
    const revocations = await loadRevocations(store.identity, clock);
    await revocations.add('j1', now + 1_000);
    expect([attempts, revocations.has('j1')]).toEqual([3, true]);
    expect((await loadRevocations(store.identity, clock)).has('j1')).toBe(true);
  });

  it('fail if the store did not take them', async () => {
    const store = new MemoryStore();
    store.identity.revokeToken = () => Promise.reject(new StoreUnavailable('no connection'));
    const revocations = await loadRevocations(store.identity, testClock(now));
    await expect(revocations.add('j1', now + 1_000)).rejects.toBeInstanceOf(StoreUnavailable);
    expect(revocations.has('j1')).toBe(false);
  });
});

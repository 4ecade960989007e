import { createHmac } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Proof } from '../../../../src/edges/shared/authenticator.ts';
import { externalTokenVerifier } from '../../../../src/edges/shared/oidc/external-tokens.ts';
import { makeProvider, requireSecureUri } from '../../../../src/edges/shared/oidc/provider.ts';
import { ProviderUnavailable } from '../../../../src/operations/faults.ts';
import { type TestClock, testClock } from '../../../support/clock.ts';
import { silentLog } from '../../../support/service.ts';
import { newKey, startTestIssuer, type TestIssuer } from '../../../support/test-issuer.ts';

const AUDIENCE = 'https://twinkeep.example';
let clock: TestClock;
let issuer: TestIssuer;
beforeEach(async () => {
  clock = testClock();
  issuer = await startTestIssuer(clock, AUDIENCE);
});
afterEach(() => issuer.close());

interface More {
  jwksUri?: string;
  platformClaim?: { name: string; value: string } | null;
  scopeClaim?: { required: boolean; prefix: string };
  issuer?: string;
}

const OPTIONAL = { required: false, prefix: '' };

function verifier({ jwksUri, platformClaim = null, scopeClaim = OPTIONAL, issuer: named = issuer.url }: More = {}) {
  const provider = makeProvider({ issuer: named, jwksUri: jwksUri ?? null }, { clock, log: silentLog });
  return externalTokenVerifier(provider, { audience: AUDIENCE, platformClaim, scopeClaim }, clock);
}

const now = () => Math.floor(clock.now() / 1000);
const verified = async (claims: Record<string, unknown> = {}, more: More = {}): Promise<Proof | null> =>
  verifier(more).verify(await issuer.token(claims));
const keyRequests = () => issuer.requestedPaths.filter((path) => path === '/keys').length;

describe('an access token of the provider', () => {
  it('identifies its user by issuer and subject, as a person', async () => {
    expect(await verified({ jti: 'j1' })).toMatchObject({
      subject: { iss: issuer.url, sub: 'ada', email: null, emailVerified: false },
      ...{ scopes: null, platformAdmin: false, person: true },
    });
  });

  it('contains the time of authentication at its provider, for a session of any age', async () => {
    const issued = now() - 100;
    const proof = await verified({ iat: issued, auth_time: issued - 1_000_000, parent: 'x' });
    expect(proof?.token).toMatchObject({ signedInAt: issued * 1000 });
    expect(proof?.token).not.toHaveProperty('parent');
  });

  it('has a time of authentication in whole milliseconds, not after now, or none', async () => {
    const signedInAt = async (iat: number) => (await verified({ iat }))?.token?.signedInAt;
    expect(await signedInAt(1_700_000_000.123_456)).toBe(1_700_000_000_123);
    expect(await signedInAt(now() + 30)).toBe(clock.now());
    expect([await signedInAt(-1), await signedInAt(0)]).toEqual([undefined, 0]);
    for (const iat of [now() + 31, 1e300]) expect(await verified({ iat })).toBeNull();
  });

  it('is recognized by its issuer only', async () => {
    const other = await issuer.token({ iss: `${issuer.url}/` });
    const found = verifier();
    expect(found.recognises(await issuer.token())).toBe(true);
    for (const text of [other, 'nonsense', 'a.b.c', '']) expect(found.recognises(text)).toBe(false);
  });

  it.each(['RS256', 'PS256', 'ES256', 'EdDSA'])('can be signed with %s', async (alg) => {
    const key = await newKey(alg);
    issuer.published = [key.public];
    expect(await verifier().verify(await issuer.token({}, {}, key))).not.toBeNull();
  });

  it.each(['RS512', 'PS384', 'ES384', 'ES512'])('cannot be signed with %s', async (alg) => {
    const key = await newKey(alg);
    issuer.published = [key.public];
    expect(await verifier().verify(await issuer.token({}, {}, key))).toBeNull();
    expect(issuer.requestedPaths).toEqual([]);
  });

  it('is refused unsigned, or signed with the public key as a shared secret', async () => {
    const claims = { iss: issuer.url, aud: AUDIENCE, sub: 'ada', exp: now() + 300 };
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const none = `${part({ alg: 'none', typ: 'JWT' })}.${part(claims)}.`;
    const signed = `${part({ alg: 'HS256', typ: 'JWT', kid: issuer.keys[0]?.kid })}.${part(claims)}`;
    const secret = JSON.stringify(issuer.published[0]);
    const hmac = `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
    issuer.published.push({ kty: 'oct', k: Buffer.from(secret).toString('base64url'), kid: 'oct', alg: 'HS256' });
    for (const token of [none, hmac]) expect(await verifier().verify(token)).toBeNull();
  });

  it.each(['JWT', 'at+jwt', 'application/at+jwt', 'jwt'])('can be of type %s', async (typ) => {
    expect(await verifier().verify(await issuer.token({}, { typ }))).not.toBeNull();
  });

  it.each(['logout+jwt', 'dpop+jwt', 'secevent+jwt'])('cannot be of type %s', async (typ) => {
    expect(await verifier().verify(await issuer.token({}, { typ }))).toBeNull();
  });

  it.each([
    ['of another audience', { aud: 'https://elsewhere.example' }],
    ['without an audience', { aud: undefined }],
    ['without an end', { exp: undefined }],
    ['without a subject', { sub: undefined }],
    ['with an empty subject', { sub: '' }],
    ['with a subject that no store takes', { sub: 'a\u0000b' }],
    ['with a subject of 256 characters', { sub: 'x'.repeat(256) }],
    ['with a scope that is not a string', { scope: ['read:devices'] }],
    ['with an identifier that is not a string', { jti: 7 }],
    ['bound to a key of its holder, which a bearer does not show', { cnf: { jkt: 'x' } }],
    ['of another issuer', { iss: 'https://elsewhere.example' }],
  ])('%s is refused', async (_, claims) => {
    expect(await verified(claims)).toBeNull();
  });

  it('can name the audience of this service among others', async () => {
    expect(await verified({ aud: ['https://elsewhere.example', AUDIENCE] })).not.toBeNull();
  });

  it.each([
    ['29 s after its end', { exp: -29 }, true],
    ['30 s after its end', { exp: -30 }, false],
    ['30 s before its beginning', { nbf: 30 }, true],
    ['31 s before its beginning', { nbf: 31 }, false],
  ])('%s: %o is accepted: %s', async (_, offsets, good) => {
    const claims = Object.fromEntries(Object.entries(offsets).map(([name, seconds]) => [name, now() + seconds]));
    expect((await verified(claims)) !== null).toBe(good);
  });

  it('signed with another key of the same identifier is refused', async () => {
    const forged = await newKey(issuer.keys[0]?.alg, issuer.keys[0]?.kid);
    expect(await verifier().verify(await issuer.token({}, {}, forged))).toBeNull();
  });

  it('has an email address if the provider verified it, and none otherwise', async () => {
    const email = 'ada@example.com';
    expect((await verified({ email, email_verified: true }))?.subject).toMatchObject({ email, emailVerified: true });
    for (const email_verified of [false, 'true', 1, undefined]) {
      expect((await verified({ email, email_verified }))?.subject).toMatchObject({ email: null, emailVerified: false });
    }
  });

  it.each([
    ['Auth0: the grant', { gty: 'client-credentials' }],
    ['a list of grants', { gty: ['client_credentials'] }],
    ['Auth0: the subject', { sub: 'q7Ff@clients' }],
    ['Microsoft Entra: the type', { idtyp: 'app' }],
    ['Microsoft Entra: the object', { oid: 'ada' }],
    ['RFC 9068', { sub: 'batch', client_id: 'batch' }],
    ['the authorised party', { sub: 'batch', azp: 'batch' }],
    ['Okta', { sub: 'batch', cid: 'batch' }],
    ['Keycloak', { azp: 'batch', preferred_username: 'service-account-batch' }],
  ])('that was issued to a program for itself is not a person’s: %s', async (_, claims) => {
    expect(await verified(claims)).toMatchObject({ person: false });
  });

  it.each([
    ['another grant', { gty: 'authorization_code' }],
    ['a user', { idtyp: 'user' }],
    ['another object', { oid: 'b7c1' }],
    ['a client that acts for its user', { client_id: 'app', azp: 'app', cid: 'app' }],
    ['a similar name', { azp: 'app', preferred_username: 'service-account-other' }],
    ['claims of other types', { gty: 7, idtyp: ['app'], oid: ['ada'], client_id: ['ada'], azp: { a: 1 } }],
  ])('of a user is a person’s: %s', async (_, claims) => {
    expect(await verified(claims)).toMatchObject({ person: true });
  });

  it('is limited to the known scopes', async () => {
    expect((await verified({ scope: 'openid read:devices profile execute:commands' }))?.scopes).toEqual([
      'read:devices',
      'execute:commands',
    ]);
  });

  it('has no permissions if it has only unknown scopes', async () => {
    for (const scope of ['openid profile', 'READ:DEVICES', 'platform:admin', '']) {
      expect((await verified({ scope }))?.scopes, scope).toEqual([]);
    }
    expect((await verified({ scope: undefined }))?.scopes).toBeNull();
  });

  it('has no permissions without the claim where it is required', async () => {
    const scopeClaim = { required: true, prefix: '' };
    expect((await verified({}, { scopeClaim }))?.scopes).toEqual([]);
    expect((await verified({ scp: ['read:devices'] }, { scopeClaim }))?.scopes).toEqual(['read:devices']);
    expect((await verified({ scope: 'openid read:homes' }, { scopeClaim }))?.scopes).toEqual(['read:homes']);
  });

  it('is limited to the scopes with the prefix, where there is one', async () => {
    const scopeClaim = { required: false, prefix: 'twinkeep:' };
    const scope = 'openid twinkeep:read:devices read:homes twinkeep:read twinkeep:twinkeep:read:plans Twinkeep:*:*';
    expect((await verified({ scope }, { scopeClaim }))?.scopes).toEqual(['read:devices']);
    expect((await verified({ scope: 'read:devices' }, { scopeClaim }))?.scopes).toEqual([]);
    expect((await verified({ scp: ['twinkeep:*:*'] }, { scopeClaim }))?.scopes).toEqual(['*:*']);
    expect((await verified({}, { scopeClaim }))?.scopes).toBeNull();
  });

  it('is limited by `scp` too, a string or a list, for providers that use it instead of `scope`', async () => {
    for (const scp of ['read:devices access_as_user', ['read:devices', 'access_as_user']]) {
      expect((await verified({ scp }))?.scopes, JSON.stringify(scp)).toEqual(['read:devices']);
    }
    for (const scp of ['access_as_user', '', ['access_as_user'], []]) {
      expect((await verified({ scp }))?.scopes, JSON.stringify(scp)).toEqual([]);
    }
    expect((await verified({ scope: 'read:homes', scp: '*:*' }))?.scopes).toEqual(['read:homes']);
    for (const scp of [null, 7, { a: 1 }, ['read:devices', 7]]) {
      expect(await verified({ scp }), JSON.stringify(scp)).toBeNull();
    }
  });

  it('is never a platform operator by a scope', async () => {
    expect((await verified({ scope: 'platform:admin' }))?.platformAdmin).toBe(false);
  });

  it.each([
    ['a text', 'operators', true],
    ['a list', ['people', 'operators'], true],
    ['another text', 'operator', false],
    ['another list', ['people'], false],
    ['an object', { operators: true }, false],
    ['a list in a list', [['operators']], false],
    ['nothing', undefined, false],
  ])('becomes a platform operator only by the configured claim: %s', async (_, groups, makes) => {
    const platformClaim = { name: 'https://example.com/groups', value: 'operators' };
    expect((await verified({ [platformClaim.name]: groups }, { platformClaim }))?.platformAdmin).toBe(makes);
    expect((await verified({ [platformClaim.name]: groups }))?.platformAdmin).toBe(false);
  });

  it('is identified by issuer and token id together, or by its signed part', async () => {
    const ids = await Promise.all(
      [{ jti: 'a' }, { jti: 'a', sub: 'bob' }, { jti: 'b' }, {}, { sub: 'bob' }].map((c) => verified(c)),
    );
    const [same, again, ...others] = ids.map((proof) => proof?.token?.id);
    expect(same).toBe(again);
    expect(new Set([same, ...others]).size).toBe(4);
    expect(same).not.toBe('a');
  });

  it('is cached for a limited time, for any expiry', async () => {
    const proof = await verified({ exp: now() + 1e9 });
    expect(proof?.until).toBe(clock.now() + 900_000);
    expect((await verified({ exp: 1e300 }))?.token?.expiresAt).toBe(8_640_000_000_000_000);
  });
});

describe('the keys of the provider', () => {
  it('are read once for many tokens, and not before the first', async () => {
    const found = verifier();
    expect(issuer.requestedPaths).toEqual([]);
    const tokens = await Promise.all([1, 2, 3, 4].map((n) => issuer.token({ sub: `${n}` })));
    await Promise.all(tokens.map((token) => found.verify(token)));
    expect(issuer.requestedPaths).toEqual(['/.well-known/openid-configuration', '/keys']);
  });

  it('are read from OIDC_JWKS_URI without discovery', async () => {
    const found = verifier({ jwksUri: `${issuer.url}/keys` });
    expect(await found.verify(await issuer.token())).not.toBeNull();
    expect(issuer.requestedPaths).toEqual(['/keys']);
  });

  it('are read over http if OIDC_JWKS_URI names it, and never if the discovery of an https issuer does', async () => {
    const https = 'https://127.0.0.1:1';
    const token = await issuer.token({ iss: https });
    expect(await verifier({ issuer: https, jwksUri: `${issuer.url}/keys` }).verify(token)).not.toBeNull();
    expect(() => requireSecureUri(`${issuer.url}/keys`, https)).toThrow('https');
    expect(requireSecureUri(`${issuer.url}/keys`, issuer.url)).toBe(`${issuer.url}/keys`);
  });

  it('that the discovery names are read over https, or over http on a loopback address like the issuer', async () => {
    for (const uri of ['https://203.0.113.1/keys', 'http://localhost:1/keys', 'http://[::1]:1/keys'])
      expect(requireSecureUri(uri, issuer.url)).toBe(uri);
    for (const uri of ['http://203.0.113.1/keys', 'http://127.example.com/keys', 'http://127.0.0.1.example.com/keys'])
      expect(() => requireSecureUri(uri, issuer.url), uri).toThrow('must start with https://');
    expect(() => requireSecureUri('http://localhost/keys', 'https://203.0.113.1')).toThrow('must start with https://');
  });

  it('are read again for an unknown key, at most every 10 s', async () => {
    const found = verifier();
    await found.verify(await issuer.token());
    const next = await newKey();
    issuer.published = [next.public];
    const token = await issuer.token({}, {}, next);
    clock.advance(9_999);
    expect(await found.verify(token)).toBeNull();
    expect(keyRequests()).toBe(1);
    clock.advance(1);
    expect(await found.verify(token)).not.toBeNull();
    for (let n = 0; n < 5; n++) await found.verify(await issuer.token({}, { kid: `made-up-${n}` }));
    expect(keyRequests()).toBe(2);
  });

  it('that were withdrawn are accepted only until the next read', async () => {
    const found = verifier();
    const token = await issuer.token({ exp: now() + 9_000 });
    await found.verify(token);
    issuer.published = [(await newKey()).public];
    clock.advance(599_999);
    expect(await found.verify(token)).not.toBeNull();
    expect(keyRequests()).toBe(1);
    clock.advance(1);
    await found.verify(token);
    await expect.poll(async () => found.verify(token)).toBeNull();
  });

  it('without identifiers are tried one after another', async () => {
    const others = await Promise.all([newKey(), newKey()]);
    issuer.published = [...others, ...issuer.keys].map(({ public: { kid: _, ...jwk } }) => jwk);
    expect(await verifier().verify(await issuer.token({}, { kid: undefined }))).not.toBeNull();
    const outsider = await newKey();
    expect(await verifier().verify(await issuer.token({}, { kid: undefined }, outsider))).toBeNull();
  });
});

describe('an unavailable provider', () => {
  it('causes no 401: the credential cannot be verified yet', async () => {
    await issuer.close();
    const found = verifier();
    await expect(found.verify(await issuer.token())).rejects.toThrow(ProviderUnavailable);
    await issuer.reopen();
    await expect(found.verify(await issuer.token())).rejects.toThrow(ProviderUnavailable);
    clock.advance(2_000);
    expect(await found.verify(await issuer.token())).not.toBeNull();
  });

  it('is requested once for all waiting requests, and not again for 2 s', async () => {
    issuer.override = (_, response) => response.writeHead(503).end();
    const found = verifier();
    for (let n = 0; n < 5; n++) await found.verify(await issuer.token()).catch(() => {});
    expect(issuer.requestedPaths).toHaveLength(1);
  });

  it('does no harm for a day while its keys are cached', async () => {
    const found = verifier();
    await found.verify(await issuer.token());
    await issuer.close();
    const verify = async () => found.verify(await issuer.token({ exp: now() + 300 }));
    for (const hours of [1, 12, 10]) {
      clock.advance(hours * 3_600_000);
      expect(await verify()).not.toBeNull();
    }
    clock.advance(3_600_000 - 1);
    expect(await verify()).not.toBeNull();
    await expect
      .poll(async () => {
        clock.advance(2_000);
        return verify().catch((error: Error) => error.name);
      })
      .toBe('ProviderUnavailable');
    await issuer.reopen();
  });

  it('causes 503 for tokens with an unknown key', async () => {
    const found = verifier();
    await found.verify(await issuer.token());
    await issuer.close();
    clock.advance(60_000);
    const next = await newKey();
    await expect(found.verify(await issuer.token({}, {}, next))).rejects.toThrow(ProviderUnavailable);
    expect(await found.verify(await issuer.token())).not.toBeNull();
    await issuer.reopen();
  });
});

describe('an invalid response of the provider', () => {
  const refusing = async () => expect(verifier().verify(await issuer.token())).rejects.toThrow(ProviderUnavailable);

  it('with a redirect is not followed', async () => {
    const elsewhere = await startTestIssuer(clock, AUDIENCE);
    issuer.override = (request, response) =>
      response.writeHead(302, { location: `${elsewhere.url}${request.url}` }).end();
    await refusing();
    expect(elsewhere.requestedPaths).toEqual([]);
    await elsewhere.close();
  });

  it.each([
    ['no JSON', '<html>'],
    ['an answer of a megabyte', `{"keys": "${'x'.repeat(1_000_000)}"}`],
    ['no discovery document', '{}'],
    ['the discovery document of another', '{"issuer": "https://elsewhere.example", "jwks_uri": "http://127.0.0.1:1"}'],
  ])('with %s counts as unavailable', async (_, text) => {
    issuer.override = (_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(text);
    await refusing();
  });

  it('that does not end is cut off', async () => {
    issuer.override = (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const more = () => response.write('x'.repeat(65_536));
      response.on('drain', more);
      while (more());
    };
    await refusing();
  });

  it('with invalid keys counts as unavailable', async () => {
    issuer.published = [null as never];
    await refusing();
  });
});

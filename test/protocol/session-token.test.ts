import { describe, expect, it } from 'vitest';
import {
  isFreshSession,
  parseSessionToken,
  type SessionToken,
  sessionCredentials,
  sessionSigningText,
  verifySession,
} from '../../src/protocol/session-token.ts';
import { newDeviceSecret, newNonce, signingKey, signText, verifyingKey } from '../../src/protocol/signature.ts';

const deviceId = '27801375-decf-7c9f-9486-5636b85993a7';
const tenantId = '6d84cc79-2141-7060-8fe2-7ff9c7fda173';
const nonce = 'QgRGsRIsuQPsFA_p';
const at = 1763635700272;
const secret = newDeviceSecret();
const key = verifyingKey('hmac-sha256', secret);
const device = { deviceId, tenantId, key: signingKey('hmac-sha256', secret) };

function tokenOf(clientId: string): SessionToken {
  const token = parseSessionToken(clientId);
  if (token === null) throw new Error(`${clientId} is no token`);
  return token;
}

describe('a session token', () => {
  it('consists of device id, milliseconds and nonce', () => {
    const clientId = `${deviceId}.${at}.${nonce}`;
    expect(parseSessionToken(clientId)).toEqual({ clientId, deviceId, timestamp: at, nonce });
  });

  it.each([
    '',
    deviceId,
    `${deviceId}.${at}`,
    `${deviceId}.${at}.`,
    `${deviceId}.${at}.${nonce}A`,
    `${deviceId}.${at}.${nonce.slice(1)}`,
    `${deviceId}.${at}.${nonce.slice(1)}+`,
    `${deviceId}.${at}.${nonce.slice(1)}|`,
    `${deviceId}.0${at}.${nonce}`,
    `${deviceId}.-1.${nonce}`,
    `${deviceId}.1e9.${nonce}`,
    `${deviceId}..${nonce}`,
    `${deviceId}.${'9'.repeat(16)}.${nonce}`,
    `${deviceId.toUpperCase()}.${at}.${nonce}`,
    `${deviceId.slice(1)}.${at}.${nonce}`,
    `x${deviceId}.${at}.${nonce}`,
    `${deviceId}.${at}.${nonce}\n`,
    `${deviceId}.${at}.${nonce}.x`,
  ])('is not %j', (clientId) => {
    expect(parseSessionToken(clientId)).toBeNull();
  });

  it('is accepted within 120 s in both directions', () => {
    const token = tokenOf(`${deviceId}.${at}.${nonce}`);
    expect(isFreshSession(token, [at])).toBe(true);
    expect(isFreshSession(token, [at + 120_000])).toBe(true);
    expect(isFreshSession(token, [at + 120_001])).toBe(false);
    expect(isFreshSession(token, [at - 120_000])).toBe(true);
    expect(isFreshSession(token, [at - 120_001])).toBe(false);
    // While a clock is being corrected, either of its times is accepted.
    expect(isFreshSession(token, [at + 3_600_000, at])).toBe(true);
    expect(isFreshSession(token, [at + 3_600_000, at - 3_600_000])).toBe(false);
  });
});

describe('signing in', () => {
  it('signs the canonical string of the session', () => {
    const credentials = sessionCredentials(device, at, nonce);
    const token = tokenOf(credentials.clientId);
    expect(sessionSigningText(token, tenantId)).toBe(
      `PROTO/3.1|${deviceId}|${tenantId}|${deviceId}.${at}.${nonce}|||0|${at}|${nonce}|session|44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a`,
    );
    expect(credentials).toMatchObject({
      username: tenantId,
      password: signText(device.key, sessionSigningText(token, tenantId)),
    });
    expect(verifySession(token, tenantId, credentials.password, key)).toBe(true);
  });

  it('fails with another key, tenant, token or password', () => {
    const { clientId, password } = sessionCredentials(device, at, nonce);
    const token = tokenOf(clientId);
    expect(verifySession(token, tenantId, password, verifyingKey('hmac-sha256', newDeviceSecret()))).toBe(false);
    expect(verifySession(token, deviceId, password, key)).toBe(false);
    expect(verifySession(token, '', password, key)).toBe(false);
    expect(verifySession(token, tenantId, '', key)).toBe(false);
    expect(verifySession(tokenOf(`${deviceId}.${at}.${newNonce()}`), tenantId, password, key)).toBe(false);
    expect(verifySession(tokenOf(`${deviceId}.${at + 1}.${nonce}`), tenantId, password, key)).toBe(false);
  });

  it('fails for a tenant id that contains a |, with any signature', () => {
    const token = tokenOf(`${deviceId}.${at}.${nonce}`);
    const tenant = `${tenantId}|x`;
    expect(verifySession(token, tenant, signText(device.key, sessionSigningText(token, tenant)), key)).toBe(false);
  });

  it.each([
    ['another.device', at, nonce],
    [deviceId, -1, nonce],
    [deviceId, 1.5, nonce],
    [deviceId, at, 'short'],
  ])('is not created from %s, %d, %s', (id, time, text) => {
    expect(() => sessionCredentials({ ...device, deviceId: id }, time, text)).toThrow(TypeError);
  });
});

import { randomBytes, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { UsedTokens } from '../../../src/edges/mqtt/used-tokens.ts';
import { parseSessionToken, type SessionToken } from '../../../src/protocol/session-token.ts';

const START = 1_800_000_000_000;
const token = (deviceId: string, at: number): SessionToken =>
  parseSessionToken(`${deviceId}.${at}.${randomBytes(12).toString('base64url')}`) as SessionToken;

it('a device with constant sign-ins evicts no tokens of others, and its own are forgotten after their time', () => {
  const used = new UsedTokens();
  const [busy, other] = [randomUUID(), randomUUID()];
  let taken = 0;
  for (let n = 0; n < 5_000; n++) if (used.markUsed(token(busy, START), START)) taken += 1;
  expect(taken).toBeGreaterThan(100);
  expect(used.markUsed(token(busy, START), START)).toBe(false);
  expect(used.markUsed(token(other, START), START)).toBe(true);
  const later = START + 120_001;
  for (let n = 0; n < taken; n++) expect(used.markUsed(token(busy, later), later)).toBe(true);
  expect(used.markUsed(token(busy, later), later)).toBe(false);
});

it('a token works once', () => {
  const used = new UsedTokens();
  const once = token(randomUUID(), START);
  expect([used.markUsed(once, START), used.markUsed(once, START), used.markUsed(once, START + 120_000)]).toEqual([
    true,
    false,
    false,
  ]);
});

it('a token dated a year ahead by a wrong clock does not keep others from being forgotten', () => {
  const used = new UsedTokens();
  expect(used.markUsed(token(randomUUID(), START + 365 * 86_400_000), START)).toBe(true);
  for (let n = 1; n <= 100; n++) used.markUsed(token(randomUUID(), START + n), START + n);
  expect(used.sizes().mqtt_used_tokens).toBe(101);
  used.markUsed(token(randomUUID(), START + 300_000), START + 300_000);
  expect(used.sizes().mqtt_used_tokens).toBe(1);
});

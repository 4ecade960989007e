import { expect } from 'vitest';
import { canonicalFieldNames } from '../../src/protocol/canonical.ts';
import {
  checkMessage,
  composeMessage,
  type MessageSession,
  type OutgoingMessage,
} from '../../src/protocol/envelope.ts';
import { FastPathVerifier, fastPathSession } from '../../src/protocol/fast-path.ts';
import { newDeviceSecret, signingKey, signText, verifyingKey } from '../../src/protocol/signature.ts';
import type { DeviceChannel } from '../../src/protocol/topics.ts';

export const secret = newDeviceSecret();
export const now = 1_763_635_705_272;
export const ids = {
  deviceId: '27801375-decf-7c9f-9486-5636b85993a7',
  tenantId: '6d84cc79-2141-7060-8fe2-7ff9c7fda173',
  clientId: '27801375-decf-7c9f-9486-5636b85993a7.1763635700272.QgRGsRIsuQPsFA_p',
};
export const session = { ...ids, key: verifyingKey('hmac-sha256', secret), keyVersion: 2 };
const fastPath = fastPathSession(session);
if (fastPath === null) throw new Error('the fast path does not support the session');
export const plain = fastPath;
export const key = signingKey('hmac-sha256', secret);
export const message: OutgoingMessage = {
  ...ids,
  messageId: '46635a99-603a-73dd-afb6-9f6dd4ae6af5',
  requestId: '',
  sequence: 3,
  timestamp: now,
  nonce: 'CYROqfAbNJQrwNIQ',
  type: 'state',
  payload: { state: { in: ['Küche', 1.5, null], on: true } },
  keyVersion: 2,
  key,
};

export const verifier = new FastPathVerifier();
/** The check of the service: the fast path, or full verification where it returns null. */
export function checkWithFallback(
  bytes: Buffer,
  known: MessageSession,
  channel: DeviceChannel,
  at: number,
): ReturnType<typeof checkMessage> {
  const fast = fastPathSession(known);
  const verified = fast === null ? null : verifier.verify(bytes, fast, channel, at);
  return verified ?? checkMessage(bytes, known, channel, at);
}

export const longWay = (bytes: Buffer) => checkMessage(bytes, session, 'state', now);
/** The result of the fast path, compared with that of the full verification. */
export function plainly(bytes: Buffer) {
  const taken = verifier.verify(bytes, plain, 'state', now);
  if (taken !== null) expect(taken).toEqual(longWay(bytes));
  return taken;
}

// The members of a JSON object as they are written, by name.
export type Members = Map<string, string>;
export const membersOf = (text: string): Members =>
  new Map(Object.entries(JSON.parse(text) as object).map(([name, value]) => [name, JSON.stringify(value)]));
export const written = (members: Iterable<readonly [string, string]>) =>
  Buffer.from(`{${[...members].map(([name, value]) => `"${name}":${value}`).join(',')}}`);

/** The members with a signature over the fields' values (`meant`), or over their text (`written`). */
export function signed(members: Members, as: 'meant' | 'written' = 'written'): Members {
  const signable = canonicalFieldNames.map((name) => {
    const value = members.get(name) ?? '';
    try {
      return as === 'meant' ? String(JSON.parse(value)) : value.replace(/^"|"$/g, '');
    } catch {
      return value;
    }
  });
  return new Map(members).set('signature', JSON.stringify(signText(key, signable.join('|'))));
}
/** A valid message with some members in another notation, signed again. */
export const sent = (change: Record<string, string>, as: 'meant' | 'written' = 'written') =>
  written(signed(new Map([...membersOf(composeMessage(message)), ...Object.entries(change)]), as));

import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { MasterKeys } from './sealing.ts';
import type { EpochMs } from './values.ts';

/** Signs paths of this service, so that holders of the URL can fetch the resource until it expires. */
export interface UrlSigner {
  /** `expires=…&signature=…`: expiry in epoch milliseconds, and HMAC-SHA256 over path and expiry, base64url. */
  query(path: string, expires: EpochMs): string;
  /** Verifies the signature in constant time. The caller checks the expiry. */
  verifies(path: string, expires: EpochMs, signature: string): boolean;
}

/** Signs with a key derived from the current master key; also accepts signatures of the others. */
export function makeUrlSigner({ current, next, previous }: MasterKeys): UrlSigner {
  const keys = [current, next, previous]
    .filter((key) => key !== undefined)
    .map((master) => Buffer.from(hkdfSync('sha256', master, '', 'twinkeep signed urls', 32)));
  const sign = (key: Buffer, path: string, expires: EpochMs): Buffer =>
    createHmac('sha256', key).update(`GET\n${path}\n${expires}`).digest();
  return {
    query: (path, expires) => {
      const signature = sign(keys[0] as Buffer, path, expires).toString('base64url');
      return `expires=${expires}&signature=${signature}`;
    },
    verifies(path, expires, signature) {
      const given = Buffer.from(signature, 'base64url');
      // All keys are tried even after a match, so that the time does not reveal which one matched.
      const matches = keys.map((key) => {
        const expected = sign(key, path, expires);
        return given.length === expected.length && timingSafeEqual(given, expected);
      });
      return matches.includes(true);
    },
  };
}

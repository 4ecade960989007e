import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { EpochMs } from './values.ts';

/** Signs paths of our own, so that whoever holds the URL may fetch what stands there, for a time. */
export interface UrlSigner {
  /** `expires=…&signature=…`: the moment, epoch milliseconds, and HMAC-SHA256 over path and moment, base64url. */
  query(path: string, expires: EpochMs): string;
  /** In constant time; whether it has expired is not looked at. */
  verifies(path: string, expires: EpochMs, signature: string): boolean;
}

/** Signs with a key derived from the master key; what the previous one signed is still good. */
export function makeUrlSigner(current: Uint8Array, previous?: Uint8Array): UrlSigner {
  const keys = [current, ...(previous === undefined ? [] : [previous])].map((master) =>
    Buffer.from(hkdfSync('sha256', master, '', 'twinkeep signed urls', 32)),
  );
  const sign = (key: Buffer, path: string, expires: EpochMs): Buffer =>
    createHmac('sha256', key).update(`GET\n${path}\n${expires}`).digest();
  return {
    query: (path, expires) => {
      const signature = sign(keys[0] as Buffer, path, expires).toString('base64url');
      return `expires=${expires}&signature=${signature}`;
    },
    verifies(path, expires, signature) {
      const given = Buffer.from(signature, 'base64url');
      // Every key is tried, whichever fits: the time tells nothing.
      const fits = keys.map((key) => {
        const wanted = sign(key, path, expires);
        return given.length === wanted.length && timingSafeEqual(given, wanted);
      });
      return fits.includes(true);
    },
  };
}

import type { IncomingHttpHeaders } from 'node:http';
import { type Clock, referenceOf } from '../../domain/clock.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { BrowserCookies, CookieChange } from '../../operations/operation.ts';

/**
 * The service's cookies with their SameSite attribute: `Lax` for the one needed when returning from the identity
 * provider.
 */
const sameSite = { session: 'Strict', csrf: 'Strict', login: 'Lax' } as const;
export type CookieName = keyof typeof sameSite;

export interface Cookies {
  read(headers: IncomingHttpHeaders, name: CookieName): string | null;
  /** Undefined if the request has no cookies. */
  readBrowserCookies(headers: IncomingHttpHeaders): BrowserCookies | undefined;
  /** A `Set-Cookie` header, as name and value. */
  set(change: Omit<CookieChange, 'name'> & { name: CookieName }): [string, string];
}

/**
 * `secure`: the service is reached by HTTPS; the `__Host-` prefix keeps other hosts of the site from setting its
 * cookies.
 */
export function makeCookies({ secure, clock }: { secure: boolean; clock: Clock }): Cookies {
  const nameOf = (name: CookieName): string => `${secure ? '__Host-' : ''}twinkeep_${name}`;

  function read({ cookie }: IncomingHttpHeaders, name: CookieName): string | null {
    if (cookie === undefined) return null;
    const wanted = `${nameOf(name)}=`;
    for (const part of cookie.split(';')) {
      const pair = part.trimStart();
      if (pair.startsWith(wanted)) return pair.slice(wanted.length).trimEnd();
    }
    return null;
  }

  return {
    read,
    readBrowserCookies: (headers) =>
      headers.cookie === undefined ? undefined : { session: read(headers, 'session'), csrf: read(headers, 'csrf') },
    set({ name, value, until }) {
      const attributes = [`${nameOf(name)}=${value ?? ''}`, 'Path=/', 'HttpOnly', `SameSite=${sameSite[name]}`];
      if (secure) attributes.push('Secure');
      if (value === null) attributes.push('Max-Age=0');
      else if (until !== null) attributes.push(`Max-Age=${secondsTo(until, referenceOf(clock))}`);
      return ['Set-Cookie', attributes.join('; ')];
    },
  };
}

const secondsTo = (until: EpochMs, now: EpochMs): number => Math.max(0, Math.floor((until - now) / 1000));

import { type Refusal, type RefusalCode, refusals } from '../../../domain/refusals.ts';

/** 4400, 4401 and 4403 are defined by the contract (§6), the others by RFC 6455 and its registry. */
export type CloseCode = 1001 | 1008 | 1011 | 1013 | 4400 | 4401 | 4403;

/** Why a connection is closed, and what its client should do; 1009 is sent by the library. */
export const closeReasons: Readonly<Record<CloseCode | 1009, { why: string; advice: string }>> = {
  1001: { why: 'The service is shutting down', advice: 'connect again' },
  1008: { why: 'Too many messages from the client', advice: 'send `ping` and nothing else' },
  1009: { why: 'A message from the client exceeded 1 KiB', advice: 'send `ping` and nothing else' },
  1011: { why: 'Internal error', advice: 'connect again later, with `snapshot=1`' },
  1013: {
    why: 'The store is unavailable, the client reads far too slowly, updates for a restricted key were lost, or too many WebSockets of its credential or tenant are open',
    advice: 'connect again later, with `snapshot=1`',
  },
  4400: {
    why: 'The query is not valid: an unknown kind, an id that is not a UUID, or an unknown tenant',
    advice: 'correct the query',
  },
  4401: {
    why: 'The credential is missing, invalid, expired or revoked, when connecting or later',
    advice: 'sign in again',
  },
  4403: {
    why: 'No tenant, a suspended tenant, or an insufficient role or scope, when connecting or later',
    advice: "contact the tenant's administrator",
  },
};

/** Close codes by HTTP status, so that every refusal has one; a missing status does not compile. */
const codes: Readonly<Record<(typeof refusals)[RefusalCode]['status'], CloseCode>> = {
  400: 4400,
  401: 4401,
  403: 4403,
  404: 4400,
  405: 4400,
  409: 4400,
  410: 4401,
  413: 4400,
  415: 4400,
  422: 4400,
  429: 1013,
  500: 1011,
  503: 1013,
};

/** The close frame of a refusal. Its reason may have at most 123 bytes. */
export const closeFrameOf = ({ code, detail }: Refusal): { code: CloseCode; reason: string } => ({
  code: codes[refusals[code].status],
  reason: `${code}: ${detail}`.slice(0, 120),
});

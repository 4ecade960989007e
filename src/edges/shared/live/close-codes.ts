import { type Refusal, type RefusalCode, refusals } from '../../../domain/refusals.ts';

/** 4400, 4401 and 4403 are the contract's (§6); the others are RFC 6455's. */
export type CloseCode = 1001 | 1008 | 1011 | 1013 | 4400 | 4401 | 4403;

/** Why a connection ends, and what its client should do; 1009 is the library's own. */
export const closeReasons: Readonly<Record<CloseCode | 1009, { why: string; advice: string }>> = {
  1001: { why: 'The service is shutting down', advice: 'connect again' },
  1008: { why: 'Too many messages from the client', advice: 'send `ping` and nothing else' },
  1009: { why: 'A message from the client over 1 KiB', advice: 'send `ping` and nothing else' },
  1011: { why: 'A fault of ours', advice: 'connect again later, with `snapshot=1`' },
  1013: {
    why: 'The store does not answer, or the client is far too slow',
    advice: 'connect again later, with `snapshot=1`',
  },
  4400: {
    why: 'The query is not valid: an unknown kind, an id that is no UUID or names no tenant',
    advice: 'correct it',
  },
  4401: {
    why: 'No credential, or one that is wrong, expired or revoked, at the start or later',
    advice: 'sign in again',
  },
  4403: {
    why: 'No tenant, a suspended one, or a role or scope that does not reach, at the start or later',
    advice: "ask the tenant's admin",
  },
};

/** By HTTP status, so that a new refusal has its code; a status that is missing here does not compile. */
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

/** A close frame's reason has 123 bytes at most. */
export const closeFrameOf = ({ code, detail }: Refusal): { code: CloseCode; reason: string } => ({
  code: codes[refusals[code].status],
  reason: `${code}: ${detail}`.slice(0, 120),
});

import { type Refusal, type RefusalCode, refusals } from '../../domain/refusals.ts';

/** 4400, 4401 and 4403 are the contract's (§6); the others are RFC 6455's. */
export type CloseCode = 1001 | 1008 | 1011 | 1013 | 4400 | 4401 | 4403;

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
export const closeOf = ({ code, detail }: Refusal): { code: CloseCode; reason: string } => ({
  code: codes[refusals[code].status],
  reason: `${code}: ${detail}`.slice(0, 120),
});

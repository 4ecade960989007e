import type { EpochMs } from './values.ts';

/** ISO 8601 in UTC, as in HTTP responses. */
export const iso = (at: EpochMs): string => new Date(at).toISOString();

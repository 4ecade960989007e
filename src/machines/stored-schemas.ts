import { z } from 'zod';
import { isObject } from '../domain/json/value.ts';
import type { EpochMs, Json, JsonObject } from '../domain/values.ts';

// Building blocks of the schemas for stored contexts. JSON from outside is passed through, not copied.

export const jsonObject = z.custom<JsonObject>(isObject, 'must be an object');
export const json = z.custom<Json>((value) => value !== undefined, 'is missing');
export const uuid = z.uuid();
export const epochMs = z.number();
export const count = z.number().int().nonnegative();
export const principal = z.strictObject({
  kind: z.enum(['user', 'device', 'system']),
  id: z.string(),
  key: z.string().optional(),
  via: z.string().optional(),
  person: z.boolean().optional(),
  requestId: z.string().optional(),
  operation: z.string().optional(),
});

/** ISO 8601 form of a time, as in HTTP responses. */
export const isoTime = (at: EpochMs): string => new Date(at).toISOString();

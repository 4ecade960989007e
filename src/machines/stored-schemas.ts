import { z } from 'zod';
import { isObject } from '../domain/json/value.ts';
import type { EpochMs, Json, JsonObject } from '../domain/values.ts';

// Pieces of the schemas that stored contexts are checked with. JSON from outside is taken as it is, not copied.

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

/** A moment as HTTP tells it. */
export const isoTime = (at: EpochMs): string => new Date(at).toISOString();

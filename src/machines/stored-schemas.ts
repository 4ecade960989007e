import { z } from 'zod';
import { isObject } from '../domain/json/value.ts';
import type { Json, JsonObject } from '../domain/values.ts';

// Building blocks of the schemas for stored contexts. JSON from outside is passed through, not copied.

export const storedJsonObject = z.custom<JsonObject>(isObject, 'must be an object');
export const storedJson = z.custom<Json>((value) => value !== undefined, 'is missing');
export const storedUuid = z.uuid();
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

import { z } from 'zod';
import { MAX_TIMEOUT_S, MAX_TTL_S } from './command.ts';
import { errorText, fieldErrors } from './field-errors.ts';
import { isObject, jsonBytes } from './json/value.ts';
import { done, type Outcome, refuse } from './refusals.ts';
import type { JsonObject } from './values.ts';

// Request fields that several operations share, on every edge.

const CONTROL = /\p{Cc}/u;
const printable = (text: string) => !CONTROL.test(text);
const unprintable = 'must not contain control characters';

export const description = z
  .string()
  .max(1_000)
  .refine((text) => printable(text.replace(/[\n\t]/g, '')), unprintable);

/** The reason for an action, stored in the journal. */
export const reason = z.string().trim().min(1).max(500).refine(printable, unprintable);

export const deviceType = z.string().trim().min(1).max(64).refine(printable, unprintable);

/** The name of an action in a manifest. */
export const actionName = z
  .string()
  .max(64)
  .regex(/^[A-Za-z][A-Za-z0-9_.:-]*$/, 'must start with a letter and contain only letters, digits, _ . : -');

/** The name of an action in a request. A name that no manifest could contain is refused by the gateway, not here. */
export const requestedActionName = z.string().min(1).max(128).refine(printable, unprintable);

/** Seconds that a command may wait to be written. The gateway limits a CRITICAL command to 300. */
export const ttlSeconds = z.number().int().min(1).max(MAX_TTL_S);
/** Seconds from the first write to the device's final ack. */
export const timeoutSeconds = z.number().int().min(1).max(MAX_TIMEOUT_S);

// zod's records silently drop a key named `__proto__`. This type keeps it, so that the rules can refuse or store it.
export const jsonObject = z
  .unknown()
  .refine(isObject, { error: 'must be an object', abort: true })
  .meta({ type: 'object' }) as unknown as z.ZodType<JsonObject>;

/** The parameters of a command in an answer. */
export const shownParams = jsonObject.meta({
  description: '`{"write_only": true}` stands for the value of a `writeOnly` parameter',
});

export const MAX_METADATA_BYTES = 4 * 1024;

export const metadata = jsonObject.refine((value) => jsonBytes(value) <= MAX_METADATA_BYTES, 'is over 4096 bytes');

/** Reads `input` by a request's schema. A refusal lists all errors by field. */
export function readFields<T>(schema: z.ZodType<T>, input: unknown): Outcome<T> {
  const read = schema.safeParse(input, { error: errorText });
  if (read.success) return done(read.data);
  return refuse('VALIDATION_FAILED', 'The request is not valid.', {
    errors: fieldErrors(read.error.issues).slice(0, 50),
  });
}

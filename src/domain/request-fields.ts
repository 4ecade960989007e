import { z } from 'zod';
import { MAX_TIMEOUT_S, MAX_TTL_S } from './command.ts';
import { isObject, jsonBytes } from './json/value.ts';
import { done, type FieldError, type Outcome, refuse } from './refusals.ts';
import { roles } from './roles.ts';
import { MAX_SLUG_LENGTH } from './slug.ts';
import { isTimezone } from './timezone.ts';
import type { JsonObject } from './values.ts';

// The fields that more than one request has, for every wire.

const CONTROL = /\p{Cc}/u;
const printable = (text: string) => !CONTROL.test(text);
const unprintable = 'must not hold control characters';

/** Any UUID, of whatever version, in lower case: an id that names nothing is not found rather than malformed. */
export const uuid = z.guid().toLowerCase();

/** A name a person gives to something: 1–100 characters after trimming. */
export const displayName = z.string().trim().min(1).max(100).refine(printable, unprintable);

export const description = z
  .string()
  .max(1_000)
  .refine((text) => printable(text.replace(/[\n\t]/g, '')), unprintable);

/** Why somebody did something: kept in the journal. */
export const reason = z.string().trim().min(1).max(500).refine(printable, unprintable);

export const timezone = z.string().max(64).refine(isTimezone, 'is not an IANA time zone');

export const deviceType = z.string().trim().min(1).max(64).refine(printable, unprintable);

/** The name of an action as a manifest gives it. */
export const actionName = z
  .string()
  .max(64)
  .regex(/^[A-Za-z][A-Za-z0-9_.:-]*$/, 'starts with a letter and holds letters, digits, _ . : -');

/** The name of an action as a request gives it: one that no manifest could hold is the gateway's to refuse. */
export const requestedActionName = z.string().min(1).max(128).refine(printable, unprintable);

export const slug = z
  .string()
  .max(MAX_SLUG_LENGTH)
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, 'is not a slug');

/** Page length; a query's text is read as a number. */
export const limit = z.coerce.number().int().min(1).max(200).default(50);

export const cursor = z.string().min(1).max(512);

/** Seconds a command may wait to be written; a CRITICAL one at most 300, which the gateway sees to. */
export const ttlSeconds = z.number().int().min(1).max(MAX_TTL_S);
/** Seconds from the first write to the final word. */
export const timeoutSeconds = z.number().int().min(1).max(MAX_TIMEOUT_S);

export const role = z.enum(roles);

// zod's own records leave out a key named `__proto__` without a word; here it stays, for the rules to refuse or keep.
export const jsonObject = z
  .unknown()
  .refine(isObject, { error: 'must be an object', abort: true })
  .meta({ type: 'object' }) as unknown as z.ZodType<JsonObject>;

export const MAX_METADATA_BYTES = 4 * 1024;

export const metadata = jsonObject.refine((value) => jsonBytes(value) <= MAX_METADATA_BYTES, 'is over 4096 bytes');

export const fieldErrors = (error: z.ZodError): FieldError[] =>
  error.issues.flatMap((issue): FieldError[] => {
    const at = issue.path.map(String);
    return issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ path: [...at, key].join('.'), message: 'is not known here' }))
      : [{ path: at.join('.'), message: issue.message }];
  });

/** Reads `input` by a request's schema; everything wrong with it is told at once, by field. */
export function readFields<T>(schema: z.ZodType<T>, input: unknown): Outcome<T> {
  const read = schema.safeParse(input);
  if (read.success) return done(read.data);
  return refuse('VALIDATION_FAILED', 'The request is not valid.', { errors: fieldErrors(read.error).slice(0, 50) });
}

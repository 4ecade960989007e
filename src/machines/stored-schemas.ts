import { z } from 'zod';
import { errorText, fieldErrors } from '../domain/field-errors.ts';
import { isObject } from '../domain/json/value.ts';
import type { StateChanges } from '../domain/twin.ts';
import type { Json, JsonObject } from '../domain/values.ts';
import type { ContextParts, StoredContext } from './definition.ts';

// Building blocks of the schemas for stored contexts. JSON from outside is passed through, not copied.

export const storedJsonObject = z.custom<JsonObject>(isObject, 'must be an object');
/** Differences that the service has computed, by property. */
export const storedChanges = z.custom<StateChanges>(isObject, 'must be an object');
export const storedJson = z.custom<Json>((value) => value !== undefined, 'is missing');
export const epochMs = z.number();
export const count = z.number().int().nonnegative();
export const principal = z.strictObject({
  kind: z.enum(['user', 'device', 'system']),
  id: z.string(),
  key: z.string().exactOptional(),
  via: z.string().exactOptional(),
  person: z.boolean().exactOptional(),
  requestId: z.string().exactOptional(),
  operation: z.string().exactOptional(),
});
/** Read-only for the compiler alone: `z.readonly` would freeze the array. */
export const list = <Item>(item: z.ZodType<Item>): z.ZodType<readonly Item[]> => z.array(item);

type Same<One, Other> = (<T>() => T extends One ? 1 : 2) extends <T>() => T extends Other ? 1 : 2 ? true : false;

/** A schema for each member of `Part`. */
type Schemas<Part> = { readonly [Name in keyof Part]-?: z.ZodType<Part[Name]> };

/** Refuses schemas of unknown members, and those that read another type than their member has. */
type Exactly<Given extends z.ZodRawShape, Part> = {
  readonly [Name in keyof Given]: Name extends keyof Part
    ? Same<Member<z.output<z.ZodObject<Given>>, Name>, Member<Part, Name>> extends true
      ? Given[Name]
      : 'the type of this member is not the type that its schema reads'
    : 'the context has no such member';
};
type Member<Part, Name> = Pick<Part, Name & keyof Part>;

/** How contexts of one kind are stored: in two parts when written, with the members of both in one object when read. */
export interface StoredForm<Context extends ContextParts> {
  /** The schema of both parts in one object. */
  schema: z.ZodObject;
  write(context: Context): StoredContext;
  /** Throws if the object does not match the schema. */
  read(stored: JsonObject): Context;
  /** Reads without validation. */
  divide(stored: JsonObject): Context;
}

/**
 * The stored form of a context, by the schemas of its members. A member that is missing here, that the context does not
 * have, or that has another type there does not compile.
 */
export const storedForm =
  <Context extends ContextParts>() =>
  <Fixed extends Schemas<Context['fixed']>, Live extends Schemas<Context['live']>>(
    fixed: Fixed & Exactly<Fixed, Context['fixed']>,
    live: Live & Exactly<Live, Context['live']>,
  ): StoredForm<Context> => {
    const whole = z.strictObject({ ...fixed, ...live });
    const parts = { fixed: z.object(fixed), live: z.object(live) };
    const names = new Set(Object.keys(whole.shape));
    return {
      schema: whole,
      write: (context) => context as object as StoredContext,
      read(members) {
        // The schema of a part ignores all other members.
        for (const name in members) if (!names.has(name)) throw mismatch(whole, members);
        const fixedPart = parts.fixed.safeParse(members);
        const livePart = parts.live.safeParse(members);
        if (!fixedPart.success || !livePart.success) throw mismatch(whole, members);
        return { fixed: fixedPart.data, live: livePart.data } as object as Context;
      },
      divide: (members) => ({ fixed: pick(members, fixed), live: pick(members, live) }) as object as Context,
    };
  };

/** Names each member that does not match, because administrators see the text as the reason of a quarantine. */
function mismatch(whole: z.ZodType, members: JsonObject): TypeError {
  const { error } = whole.safeParse(members, { error: errorText });
  const errors = fieldErrors(error?.issues ?? []).map(({ path, message }) => `${path} ${message}`);
  return new TypeError(errors.join('; '));
}

const pick = (members: JsonObject, shape: object): JsonObject =>
  Object.fromEntries(Object.entries(members).filter(([name]) => Object.hasOwn(shape, name)));

import { expect } from 'vitest';
import { z } from 'zod';
import { errorText } from '../../src/domain/field-errors.ts';

type Code = z.core.$ZodIssue['code'];

const each = (schemas: readonly z.ZodType[], input: unknown) => schemas.map((schema) => [schema, input] as const);
const { string, number, array, any } = z;

/** Errors of each code of zod, in each form in which it is worded. A missing code does not compile. */
const samples: Readonly<Record<Code, readonly (readonly [z.ZodType, unknown])[]>> = {
  invalid_type: [
    ...each(
      [string(), number(), z.boolean(), z.bigint(), z.null(), array(any()), z.object({}), z.symbol()],
      () => null,
    ),
    [z.int(), 1.5],
    [string(), undefined],
  ],
  too_big: [
    ...each([string().max(1), string().max(2), string().length(1), string().length(2)], 'abc'),
    ...each([array(any()).max(1), array(any()).max(2), array(any()).length(1), array(any()).length(2)], [1, 2, 3]),
    ...each([number().max(1), number().lt(1)], 1.5),
  ],
  too_small: [
    ...each([string().min(1), string().min(2)], ''),
    ...each([array(any()).min(1), array(any()).min(2)], []),
    ...each([number().min(1), number().gt(1)], 0.5),
  ],
  invalid_format: each(
    [
      ...[z.base64(), z.base64url(), z.iso.datetime(), z.email(), z.guid(), z.uuid(), z.url()],
      ...[z.ipv4(), string().regex(/^a$/)],
    ],
    '%',
  ),
  not_multiple_of: [[number().multipleOf(5), 3]],
  unrecognized_keys: [[z.strictObject({}), { a: 1 }]],
  invalid_union: [
    [z.union([string(), z.int()]), true],
    [
      z.discriminatedUnion('type', [z.object({ type: z.literal('a') }), z.object({ type: z.literal('b') })]),
      { type: 1 },
    ],
  ],
  invalid_key: [[z.record(string().max(1), any()), { cc: 1 }]],
  invalid_element: [[z.map(any(), string()), new Map([[{}, 1]])]],
  invalid_value: [
    [z.literal('a'), 1],
    [z.enum(['a', 'b']), 'c'],
  ],
  custom: [[z.custom(() => false), 1]],
};

/** A text with placeholders for lists of values and for numbers. */
const templateOf = (text: string): string =>
  text.replace(/"[^"]*"(, "[^"]*")*/g, '"…"').replace(/-?\d+(\.\d+)?(e\+?\d+)?/g, '0');

const sampleTexts = (error?: z.core.$ZodErrorMap): string[] =>
  Object.entries(samples).flatMap(([code, all]) =>
    all.map(([schema, input]) => {
      const [issue] = schema.safeParse(input, error && { error }).error?.issues ?? [];
      if (issue?.code !== code) throw new Error(`the sample has ${issue?.code} instead of ${code}`);
      return issue.message;
    }),
  );

/** The texts of `src/domain/field-errors.ts`. */
const fieldErrorTemplates = new Set(sampleTexts(errorText).map(templateOf));

/** What zod's own texts begin with, such as "Too small". */
const zodWordings: readonly string[] = [
  ...new Set(sampleTexts().map((text) => text.replace(/[:".].*/s, '').trim())),
  ', received ',
];

/** Texts of PostgreSQL, its drivers and of Node's errors. */
const DRIVER =
  /invalid input syntax|violates|duplicate key|out of range for type|syntax error|byte sequence|ECONN|pglite/i;
const STACK = /\n\s+at |\.[cm]?[jt]s\b|node_modules|file:\/\/|\b(Zod|Type|Range|Syntax|Database)Error\b/;

/** Fails if a text for a caller has wording of a library, or names a file. */
export function expectNoLibraryText(text: string): void {
  expect(zodWordings.filter((wording) => text.includes(wording)).map((wording) => [wording, text])).toEqual([]);
  expect(text).not.toMatch(DRIVER);
  expect(text).not.toMatch(STACK);
}

/** A schema's own texts for an input, which have precedence over those of `src/domain/field-errors.ts`. */
export function schemaTexts(schema: z.ZodType, input: unknown): string[] {
  const { error } = schema.safeParse(input, { error: () => '' });
  return (error?.issues ?? []).map(({ message }) => message).filter((message) => message !== '');
}

/**
 * Fails unless a field's error is one of `src/domain/field-errors.ts`, or one of `ownTexts`, the texts of the schemas.
 */
export function expectOwnText(text: string, ownTexts: ReadonlySet<string> = new Set()): void {
  expectNoLibraryText(text);
  if (!ownTexts.has(text)) expect([...fieldErrorTemplates]).toContain(templateOf(text));
}

import { isObject } from './json/value.ts';
import { isMultiple, isValid, unlisted } from './param-schema.ts';
import { quoted } from './quoted.ts';
import type { Json, JsonObject } from './values.ts';

// Compares two schemas of the contract's subset (§5). Everything that is not proven narrower or equal counts as wider.

const MAX_REASONS = 10;
/** Comparisons of two values that cost as much as a pair of schemas. */
const VALUES_PER_PAIR = 20;
const TOO_COMPLEX = 'The parameters are too complex to be compared.';
/** Pairs of schemas that are compared at most for one manifest: some 50 ms. A usual schema takes less than 50. */
const MAX_PAIRS = 10_000;

/** The pairs that may still be compared; beyond it a schema counts as wider. */
export interface ComparisonBudget {
  pairs: number;
}

export const newComparisonBudget = (): ComparisonBudget => ({ pairs: MAX_PAIRS });
const allTypes = ['object', 'array', 'string', 'number', 'boolean', 'null'] as const;

/**
 * In which respect `after` may accept parameters that `before` refuses, one sentence each, at most 10; empty if it is proven
 * that it accepts none. Both have passed `schemaErrors`. Titles, descriptions and defaults do not matter.
 */
export function widenings(before: JsonObject, after: JsonObject, budget = newComparisonBudget()): string[] {
  const comparison = new Comparison(budget);
  comparison.compare(before, after, '', true);
  return comparison.reasons;
}

const listedIn = ({ enum: values }: JsonObject): number => (Array.isArray(values) ? values.length : 1);

/** `reasons` has the sentences found so far. */
class Comparison {
  readonly reasons: string[] = [];
  readonly #budget: ComparisonBudget;

  constructor(budget: ComparisonBudget) {
    this.#budget = budget;
  }

  /** `at` is the path of the parameter, empty for all parameters. */
  compare(before: JsonObject, after: JsonObject, at: string, root: boolean): void {
    if (this.#budget.pairs <= 0) {
      this.reasons.splice(0, MAX_REASONS, TOO_COMPLEX);
      return;
    }
    this.#budget.pairs -= 1;
    if (this.reasons.length >= MAX_REASONS) return;
    const values = finiteValues(after, root);
    if (values !== null) {
      // Each of the values is compared with each of those before.
      this.#budget.pairs -= Math.ceil((values.length * listedIn(before)) / VALUES_PER_PAIR);
      const added = values.find((value) => isValid(after, value, root) && !isValid(before, value, root));
      if (added !== undefined) this.#add(`${nameOf(at)} may be ${shown(added)}, which was refused before.`);
      return;
    }
    if (before.enum !== undefined || before.const !== undefined) {
      this.#add(`${nameOf(at)} is no longer limited to listed values.`);
      return;
    }
    const types = typesOf(after, root);
    const added = types.filter(
      (type) => !typesOf(before, root).some((one) => one === type || isWholeNumber(one, type)),
    );
    if (added.length > 0) {
      this.#add(`${nameOf(at)} may be of the type ${added.join(' or ')}, which was refused before.`);
      return;
    }
    if (types.includes('number') || types.includes('integer')) this.#compareNumbers(before, after, at, types);
    if (types.includes('string')) this.#compareSizes(before, after, at, ['minLength', 'maxLength', 'characters']);
    if (types.includes('array')) this.#compareArrays(before, after, at);
    if (types.includes('object')) this.#compareObjects(before, after, at, root);
  }

  #add(reason: string): void {
    if (this.reasons.length < MAX_REASONS) this.reasons.push(reason);
  }

  #compareNumbers(before: JsonObject, after: JsonObject, at: string, types: readonly string[]): void {
    const [low, high] = [lowerLimit(after), upperLimit(after)];
    const [lowBefore, highBefore] = [lowerLimit(before), upperLimit(before)];
    if (isBelow(low, lowBefore))
      this.#add(`${nameOf(at)} may be ${limitText(low, 'least')} (before: ${limitText(lowBefore, 'least')}).`);
    if (isBelow(negated(high), negated(highBefore)))
      this.#add(`${nameOf(at)} may be ${limitText(high, 'most')} (before: ${limitText(highBefore, 'most')}).`);
    const step = before.multipleOf as number | undefined;
    if (step === undefined) return;
    const steps = [after.multipleOf as number | undefined, types.includes('number') ? undefined : 1];
    if (!steps.some((one) => one !== undefined && isMultiple(one, step)))
      this.#add(`${nameOf(at)} need not be a multiple of ${step}.`);
  }

  #compareSizes(
    before: JsonObject,
    after: JsonObject,
    at: string,
    [least, most, unit]: readonly [string, string, string],
  ): void {
    const [low, lowBefore] = [(after[least] ?? 0) as number, (before[least] ?? 0) as number];
    const [high, highBefore] = [limitOf(after[most]), limitOf(before[most])];
    if (low < lowBefore) this.#add(`${nameOf(at)} may have fewer than ${lowBefore} ${unit}.`);
    if (high > highBefore) this.#add(`${nameOf(at)} may have more than ${highBefore} ${unit}.`);
  }

  #compareArrays(before: JsonObject, after: JsonObject, at: string): void {
    this.#compareSizes(before, after, at, ['minItems', 'maxItems', 'items']);
    if (!isObject(before.items) || after.maxItems === 0) return;
    this.compare(before.items, isObject(after.items) ? after.items : {}, `${at}[]`, false);
  }

  #compareObjects(before: JsonObject, after: JsonObject, at: string, root: boolean): void {
    const required = new Set((after.required ?? []) as string[]);
    for (const name of (before.required ?? []) as string[]) {
      if (!required.has(name)) this.#add(`${nameOf(join(at, name))} is no longer required.`);
    }
    const [listedBefore, listed] = [propertiesOf(before), propertiesOf(after)];
    const [othersBefore, others] = [unlisted(before, root), unlisted(after, root)];
    for (const [name, schema] of Object.entries(listed)) {
      const earlier = Object.hasOwn(listedBefore, name) ? listedBefore[name] : othersBefore;
      if (earlier === false) this.#add(`${nameOf(join(at, name))} is a new parameter.`);
      else if (isObject(earlier)) this.compare(earlier, schema as JsonObject, join(at, name), false);
    }
    if (others === false) return;
    if (othersBefore === false) this.#add(`${nameOf(at)} may have properties with any name.`);
    else if (isObject(othersBefore)) this.compare(othersBefore, isObject(others) ? others : {}, `${at}.*`, false);
    for (const [name, schema] of Object.entries(listedBefore)) {
      if (Object.hasOwn(listed, name)) continue;
      this.compare(schema as JsonObject, isObject(others) ? others : {}, join(at, name), false);
    }
  }
}

const join = (at: string, name: string): string => (at === '' ? name : `${at}.${name}`);
const nameOf = (at: string): string => (at === '' ? 'The object of parameters' : `Parameter ${quoted(at)}`);

const shown = (value: Json): string => quoted(typeof value === 'string' ? value : JSON.stringify(value));

const propertiesOf = ({ properties }: JsonObject): JsonObject => (isObject(properties) ? properties : {});

/** The values that a schema can accept, if it lists them or they are few by type; otherwise null. */
function finiteValues(schema: JsonObject, root: boolean): readonly Json[] | null {
  if (schema.const !== undefined) return [schema.const];
  if (Array.isArray(schema.enum)) return schema.enum;
  const types = typesOf(schema, root);
  if (types.some((type) => type !== 'boolean' && type !== 'null')) return null;
  return types.flatMap((type): Json[] => (type === 'null' ? [null] : [false, true]));
}

function typesOf({ type }: JsonObject, root: boolean): readonly string[] {
  if (root) return ['object'];
  return type === undefined ? allTypes : ([type].flat() as string[]);
}

const isWholeNumber = (before: string, after: string): boolean => before === 'number' && after === 'integer';

/** A limit of a number; null is none. */
interface Limit {
  value: number;
  /** The value itself is refused. */
  exclusive: boolean;
}

function lowerLimit({ minimum, exclusiveMinimum }: JsonObject): Limit | null {
  return narrowest(minimum as number | undefined, exclusiveMinimum as number | undefined, (a, b) => a > b);
}

function upperLimit({ maximum, exclusiveMaximum }: JsonObject): Limit | null {
  return narrowest(maximum as number | undefined, exclusiveMaximum as number | undefined, (a, b) => a < b);
}

function narrowest(
  inclusive: number | undefined,
  exclusive: number | undefined,
  isNarrower: (a: number, b: number) => boolean,
): Limit | null {
  if (exclusive !== undefined && (inclusive === undefined || !isNarrower(inclusive, exclusive)))
    return { value: exclusive, exclusive: true };
  return inclusive === undefined ? null : { value: inclusive, exclusive: false };
}

/** Whether a lower limit accepts values that an earlier one refused. */
function isBelow(after: Limit | null, before: Limit | null): boolean {
  if (before === null) return false;
  if (after === null || after.value < before.value) return true;
  return after.value === before.value && before.exclusive && !after.exclusive;
}

const negated = (limit: Limit | null): Limit | null => limit && { ...limit, value: -limit.value };

const limitText = (limit: Limit | null, end: 'least' | 'most'): string => {
  if (limit === null) return end === 'least' ? 'as low as any number' : 'as high as any number';
  if (limit.exclusive) return `${end === 'least' ? 'above' : 'below'} ${limit.value}`;
  return `at ${end} ${limit.value}`;
};

const limitOf = (value: Json | undefined): number =>
  value === undefined ? Number.POSITIVE_INFINITY : (value as number);

import { isObject } from './json/value.ts';
import { isMultiple, isValid, unlisted } from './param-schema.ts';
import { quoted } from './quoted.ts';
import type { Json, JsonObject } from './values.ts';

// Compares two schemas of the contract's subset (§5). Everything that is not proven narrower or equal counts as wider.

const MAX_REASONS = 10;
/** Values shown in a reason. */
const MAX_VALUES = 5;
/** Comparisons of two values that cost as much as a pair of schemas. */
const VALUES_PER_PAIR = 20;
const TOO_COMPLEX = 'The parameters are too complex to be compared.';
/** Pairs of schemas that are compared at most for one manifest: some 50 ms. A usual schema takes less than 50. */
const MAX_PAIRS = 10_000;

/** The pairs that may still be compared; beyond it a schema counts as wider. Each reason found takes one too. */
export interface ComparisonBudget {
  pairs: number;
}

export const newComparisonBudget = (): ComparisonBudget => ({ pairs: MAX_PAIRS });
const allTypes = ['object', 'array', 'string', 'number', 'boolean', 'null'] as const;

/** In which respect a schema may accept parameters that an earlier one refuses. */
export interface Widening {
  /** 0: it is proven that there are none. */
  count: number;
  /** Whether it accepts values of a new kind: other parameters, types, or values outside a list. */
  newKinds: boolean;
  /**
   * One sentence each, at most 10 and then the number of the others. New kinds come first, so that they are not among the
   * others because of many higher limits.
   */
  reasons: string[];
}

/** Compares schemas that have passed `schemaErrors`. Titles, descriptions and defaults do not matter. */
export function widening(before: JsonObject, after: JsonObject, budget = newComparisonBudget()): Widening {
  const comparison = new Comparison(budget);
  comparison.compare(before, after, '', true);
  return comparison.result();
}

const listedIn = ({ enum: values }: JsonObject): number => (Array.isArray(values) ? values.length : 1);

class Comparison {
  readonly #budget: ComparisonBudget;
  readonly #newKinds: string[] = [];
  readonly #limits: string[] = [];
  #count = 0;
  #isComplete = true;

  constructor(budget: ComparisonBudget) {
    this.#budget = budget;
  }

  result(): Widening {
    const found = [...(this.#isComplete ? [] : [TOO_COMPLEX]), ...this.#newKinds, ...this.#limits];
    const reasons = found.slice(0, MAX_REASONS);
    const count = this.#count + (this.#isComplete ? 0 : 1);
    if (count > reasons.length) reasons.push(`And ${count - reasons.length} more.`);
    return { count, newKinds: !this.#isComplete || this.#newKinds.length > 0, reasons };
  }

  /** `at` is the path of the parameter, empty for all parameters. */
  compare(before: JsonObject, after: JsonObject, at: string, root: boolean): void {
    if (this.#budget.pairs <= 0) {
      this.#isComplete = false;
      return;
    }
    this.#budget.pairs -= 1;
    const values = finiteValues(after, root);
    if (values !== null) {
      // Each of the values is compared with each of those before.
      this.#budget.pairs -= Math.ceil((values.length * listedIn(before)) / VALUES_PER_PAIR);
      const added = values.filter((value) => isValid(after, value, root) && !isValid(before, value, root));
      if (added.length > 0)
        this.#add('new kind', () => `${nameOf(at)} may be ${listed(added)}, which was refused before.`);
      return;
    }
    if (before.enum !== undefined || before.const !== undefined) {
      this.#add('new kind', () => `${nameOf(at)} is no longer limited to listed values.`);
      return;
    }
    const types = typesOf(after, root);
    const added = types.filter(
      (type) => !typesOf(before, root).some((one) => one === type || isWholeNumber(one, type)),
    );
    if (added.length > 0) {
      this.#add('new kind', () => `${nameOf(at)} may be of the type ${added.join(' or ')}, which was refused before.`);
      return;
    }
    if (types.includes('number') || types.includes('integer')) this.#compareNumbers(before, after, at, types);
    if (types.includes('string')) this.#compareSizes(before, after, at, ['minLength', 'maxLength', 'characters']);
    if (types.includes('array')) this.#compareArrays(before, after, at);
    if (types.includes('object')) this.#compareObjects(before, after, at, root);
  }

  /** `reason` is called only if its sentence is shown. */
  #add(kind: 'new kind' | 'limit', reason: () => string): void {
    this.#count += 1;
    this.#budget.pairs -= 1;
    const shown = kind === 'limit' ? this.#limits : this.#newKinds;
    if (shown.length < MAX_REASONS) shown.push(reason());
  }

  #compareNumbers(before: JsonObject, after: JsonObject, at: string, types: readonly string[]): void {
    const [low, high] = [lowerLimit(after), upperLimit(after)];
    const [lowBefore, highBefore] = [lowerLimit(before), upperLimit(before)];
    if (isBelow(low, lowBefore))
      this.#add(
        'limit',
        () => `${nameOf(at)} may be ${limitText(low, 'least')} (before: ${limitText(lowBefore, 'least')}).`,
      );
    if (isBelow(negated(high), negated(highBefore)))
      this.#add(
        'limit',
        () => `${nameOf(at)} may be ${limitText(high, 'most')} (before: ${limitText(highBefore, 'most')}).`,
      );
    const step = before.multipleOf as number | undefined;
    if (step === undefined) return;
    const steps = [after.multipleOf as number | undefined, types.includes('number') ? undefined : 1];
    if (!steps.some((one) => one !== undefined && isMultiple(one, step)))
      this.#add('limit', () => `${nameOf(at)} need not be a multiple of ${step}.`);
  }

  #compareSizes(
    before: JsonObject,
    after: JsonObject,
    at: string,
    [least, most, unit]: readonly [string, string, string],
  ): void {
    const [low, lowBefore] = [(after[least] ?? 0) as number, (before[least] ?? 0) as number];
    const [high, highBefore] = [limitOf(after[most]), limitOf(before[most])];
    if (low < lowBefore) this.#add('limit', () => `${nameOf(at)} may have fewer than ${lowBefore} ${unit}.`);
    if (high > highBefore) this.#add('limit', () => `${nameOf(at)} may have more than ${highBefore} ${unit}.`);
  }

  #compareArrays(before: JsonObject, after: JsonObject, at: string): void {
    this.#compareSizes(before, after, at, ['minItems', 'maxItems', 'items']);
    if (!isObject(before.items) || after.maxItems === 0) return;
    this.compare(before.items, isObject(after.items) ? after.items : {}, `${at}[]`, false);
  }

  #compareObjects(before: JsonObject, after: JsonObject, at: string, root: boolean): void {
    const required = new Set((after.required ?? []) as string[]);
    for (const name of (before.required ?? []) as string[]) {
      if (!required.has(name)) this.#add('limit', () => `${nameOf(join(at, name))} is no longer required.`);
    }
    const [propertiesBefore, properties] = [propertiesOf(before), propertiesOf(after)];
    const [othersBefore, others] = [unlisted(before, root), unlisted(after, root)];
    for (const [name, schema] of Object.entries(properties)) {
      const earlier = Object.hasOwn(propertiesBefore, name) ? propertiesBefore[name] : othersBefore;
      if (earlier === false) this.#add('new kind', () => `${nameOf(join(at, name))} is a new parameter.`);
      else if (isObject(earlier)) this.compare(earlier, schema as JsonObject, join(at, name), false);
    }
    if (others === false) return;
    if (othersBefore === false) this.#add('new kind', () => `${nameOf(at)} may have properties with any name.`);
    else if (isObject(othersBefore)) this.compare(othersBefore, isObject(others) ? others : {}, `${at}.*`, false);
    for (const [name, schema] of Object.entries(propertiesBefore)) {
      if (Object.hasOwn(properties, name)) continue;
      this.compare(schema as JsonObject, isObject(others) ? others : {}, join(at, name), false);
    }
  }
}

const join = (at: string, name: string): string => (at === '' ? name : `${at}.${name}`);
const nameOf = (at: string): string => (at === '' ? 'The object of parameters' : `Parameter ${quoted(at)}`);

const shown = (value: Json): string => quoted(typeof value === 'string' ? value : JSON.stringify(value));

function listed(values: readonly Json[]): string {
  const more = values.length - MAX_VALUES;
  return `${values.slice(0, MAX_VALUES).map(shown).join(' or ')}${more > 0 ? ` or ${more} other values` : ''}`;
}

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

import { isObject, setOwn } from '../json/value.ts';
import type { Json, JsonObject } from '../values.ts';
import { isSampleValue, type SampleValue, seriesPathOf } from './sample.ts';

// The samples of a property that the history keeps, by the manifest of its device.

/** All samples, those with another value than the last one kept, or none. */
export const historyModes = ['every', 'change', 'off'] as const;
export type HistoryMode = (typeof historyModes)[number];

/** A property whose samples are not all kept. */
export interface HistoryRule {
  /** The path of the property. `off` holds for everything below it, too. */
  property: string;
  mode: Exclude<HistoryMode, 'every'>;
  /** With `change`: a number is kept if it differs by more than this from the last value kept, or if that was another type. */
  deadband?: number;
}

/** The last value kept of each property with the mode `change`, by its path. */
export type KeptValues = ReadonlyMap<string, SampleValue>;
export const NOTHING_KEPT: KeptValues = new Map();

/** The rules of a manifest's properties; undefined if all samples are kept. */
export function historyRulesOf(
  properties: Readonly<Record<string, { history?: HistoryMode; deadband?: number }>> = {},
): readonly HistoryRule[] | undefined {
  const rules = Object.entries(properties).flatMap(([property, { history = 'every', deadband }]): HistoryRule[] =>
    history === 'every' ? [] : [{ property, mode: history, ...(deadband !== undefined && { deadband }) }],
  );
  return rules.length === 0 ? undefined : rules;
}

/** The values that are still compared under these rules. */
export function keptUnder(kept: KeptValues, rules: readonly HistoryRule[] = []): KeptValues {
  const compared = new Set(rules.flatMap(({ property, mode }) => (mode === 'change' ? [property] : [])));
  const remaining = [...kept].filter(([property]) => compared.has(property));
  if (remaining.length === kept.size) return kept;
  return remaining.length === 0 ? NOTHING_KEPT : new Map(remaining);
}

/**
 * How values are compared. `order`: with the last one kept. `gap`: earlier reports may still arrive, so all are kept, and
 * become the last ones kept. `late`: they arrived after later ones, and all are kept.
 */
export type ReportPosition = 'order' | 'gap' | 'late';

export interface KeptPart {
  /** The same object if all of it is kept. */
  part: JsonObject;
  kept: KeptValues;
}

/** The part of a report, or of telemetry, that leaves samples under the rules. */
export function keptPart(
  report: JsonObject,
  rules: readonly HistoryRule[],
  kept: KeptValues,
  position: ReportPosition,
  from: 'state' | 'telemetry' = 'state',
): KeptPart {
  const filter = new SampleFilter(kept, position);
  return { part: filter.apply(report, rulesByName(rules)[from]), kept: filter.kept };
}

class SampleFilter {
  kept: KeptValues;
  readonly #position: ReportPosition;
  #changed: Map<string, SampleValue> | null = null;

  constructor(kept: KeptValues, position: ReportPosition) {
    this.kept = kept;
    this.#position = position;
  }

  apply(object: JsonObject, { rule, below }: RuleNode): JsonObject {
    if (rule?.mode === 'off') return {};
    const part: JsonObject = {};
    let isWhole = true;
    for (const name of Object.keys(object)) {
      const value = object[name] as Json;
      const node = below.get(name);
      const remaining = node === undefined ? value : this.#remaining(value, node);
      isWhole &&= remaining === value;
      if (remaining !== undefined) setOwn(part, name, remaining);
    }
    return isWhole ? object : part;
  }

  /** Undefined if nothing of the value is kept. */
  #remaining(value: Json, node: RuleNode): Json | undefined {
    const { rule } = node;
    if (rule?.mode === 'off') return undefined;
    if (rule !== null && isSampleValue(value)) return this.#isKept(value, rule) ? value : undefined;
    if (!isObject(value)) return value;
    const part = this.apply(value, node);
    return part !== value && Object.keys(part).length === 0 ? undefined : part;
  }

  #isKept(value: SampleValue, { property, deadband = 0 }: HistoryRule): boolean {
    if (this.#position === 'late') return true;
    const last = this.kept.get(property);
    const differs =
      typeof value === 'number' && typeof last === 'number' ? Math.abs(value - last) > deadband : value !== last;
    if (!differs && this.#position === 'order') return false;
    this.#changed ??= new Map(this.kept);
    this.#changed.set(property, value);
    this.kept = this.#changed;
    return true;
  }
}

/** The rules of a name, and those of the names below it. */
interface RuleNode {
  rule: HistoryRule | null;
  below: Map<string, RuleNode>;
}
type RuleTrees = Readonly<Record<'state' | 'telemetry', RuleNode>>;

const trees = new WeakMap<readonly HistoryRule[], RuleTrees>();

/** Built once for the rules of a manifest, which are never changed in place. */
function rulesByName(rules: readonly HistoryRule[]): RuleTrees {
  const known = trees.get(rules);
  if (known !== undefined) return known;
  const built: RuleTrees = { state: newNode(), telemetry: newNode() };
  for (const rule of rules) {
    const path = seriesPathOf(rule.property);
    if (path === null) continue;
    let node = built[path.from];
    for (const name of path.names) {
      const next = node.below.get(name) ?? newNode();
      node.below.set(name, next);
      node = next;
    }
    node.rule = rule;
  }
  trees.set(rules, built);
  return built;
}

const newNode = (): RuleNode => ({ rule: null, below: new Map() });

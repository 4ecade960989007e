import { foldedAction, isRestricted } from './capability-registry.ts';
import { jsonBytes } from './json/value.ts';
import { type Capability, type Manifest, type RemovedAction, type SafetyClass, safetyClasses } from './manifest.ts';
import { quoted } from './quoted.ts';
import { type ComparisonBudget, newComparisonBudget, widenings } from './schema-widening.ts';
import type { Json, JsonObject } from './values.ts';

// What a new manifest allows that the one before refused. Removed actions are remembered, so that two harmless changes
// (remove, add again) are not a way around the comparison.

/** Removed actions that a manifest remembers. One beyond this is refused. */
export const MAX_REMOVED = 200;
/** Size of the schemas of removed actions; the oldest are dropped beyond this. */
const MAX_REMOVED_BYTES = 64 * 1024;

export interface ManifestComparison {
  /** What gets weaker, one sentence each. Empty: nothing, the change needs no confirmation. */
  weaker: string[];
  /** The members of actions that get weaker, such as `open_gate.safetyClass`. */
  changes: Record<string, { from: Json; to: Json }>;
  /** To store with the new manifest. */
  removed: RemovedAction[];
}

type Earlier = Pick<Manifest, 'capabilities' | 'removed'>;

/** Compares with the device's current manifest, or null without one. */
export function compareManifests(before: Earlier | null, after: readonly Capability[]): ManifestComparison {
  const comparison: ManifestComparison = { weaker: [], changes: {}, removed: removedBy(before, after) };
  // One for the whole manifest: with many remembered actions the pairs would be their product.
  const budget = newComparisonBudget();
  for (const capability of after) compareAction(comparison, { before, after, capability, budget });
  return comparison;
}

function compareAction(
  { weaker, changes }: ManifestComparison,
  {
    before,
    after,
    capability,
    budget,
  }: { before: Earlier | null; after: readonly Capability[]; capability: Capability; budget: ComparisonBudget },
): void {
  const { action, safetyClass, paramSchema } = capability;
  const floor = earlierOf(before, after, capability);
  if (floor === null) return;
  const name = quoted(action);
  if (rank(safetyClass) < rank(floor.safetyClass)) {
    weaker.push(`${name} ${consequenceOf(safetyClass)}: ${originOf(floor, action)}, and becomes ${safetyClass}.`);
    changes[`${action}.safetyClass`] = { from: floor.safetyClass, to: safetyClass };
  }
  // A NORMAL action needs no confirmation whatever its parameters are.
  if (safetyClass === 'NORMAL' || floor.schemas.length === 0) return;
  const wider = floor.schemas.map((schema) =>
    schema === null ? ['Its earlier parameters are no longer known.'] : widenings(schema, paramSchema, budget),
  );
  const [first] = wider.toSorted((a, b) => b.length - a.length);
  if (first === undefined || first.length === 0) return;
  weaker.push(`${name} is ${floor.safetyClass} and accepts more parameters. ${first.join(' ')}`);
  changes[`${action}.paramSchema`] = { from: floor.schemas[wider.indexOf(first)] ?? null, to: paramSchema };
}

/** The strictest earlier form of an action, in any spelling of its name. */
interface Floor {
  safetyClass: SafetyClass;
  origin: 'same' | 'spelling' | 'removed' | 'sibling';
  action: string;
  /** Schemas to compare with; null is one that is not known. */
  schemas: (JsonObject | null)[];
}

/** Null if no earlier action of this name is above NORMAL. */
function earlierOf(before: Earlier | null, after: readonly Capability[], { action }: Capability): Floor | null {
  const same = before?.capabilities.find((one) => one.action === action);
  if (same !== undefined) return same.safetyClass === 'NORMAL' ? null : floorOf([{ ...same, origin: 'same' }]);
  const isSimilar = (one: { action: string }) => foldedAction(one.action) === foldedAction(action);
  return floorOf([
    ...(before?.capabilities ?? []).filter(isSimilar).map((one) => ({ ...one, origin: 'spelling' as const })),
    ...(before?.removed ?? []).filter(isSimilar).map((one) => ({ ...one, origin: 'removed' as const })),
    // Its parameters are new too: there is nothing to compare them with.
    ...after
      .filter((one) => one.action !== action && isSimilar(one))
      .map((one) => ({ ...one, paramSchema: undefined, origin: 'sibling' as const })),
  ]);
}

type Candidate = { action: string; safetyClass: SafetyClass; origin: Floor['origin'] } & {
  paramSchema: JsonObject | null | undefined;
};

function floorOf(candidates: readonly Candidate[]): Floor | null {
  const strict = candidates.filter(({ safetyClass }) => safetyClass !== 'NORMAL');
  const [strictest] = strict.toSorted((a, b) => rank(b.safetyClass) - rank(a.safetyClass));
  if (strictest === undefined) return null;
  const { action, safetyClass, origin } = strictest;
  const schemas = distinct(strict.flatMap(({ paramSchema }) => (paramSchema === undefined ? [] : [paramSchema])));
  return { action, safetyClass, origin, schemas };
}

const distinct = (schemas: readonly (JsonObject | null)[]): (JsonObject | null)[] => [
  ...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values(),
];

const consequenceOf = (safetyClass: SafetyClass): string =>
  safetyClass === 'NORMAL' ? 'will need no confirmation' : 'can be requested, with a confirmation';

function originOf({ origin, action: earlier, safetyClass }: Floor, action: string): string {
  switch (origin) {
    case 'same':
      return `it is ${safetyClass} now`;
    case 'removed':
      return earlier === action
        ? `it was ${safetyClass} when it was removed`
        : `it is a spelling of ${quoted(earlier)}, which was ${safetyClass} when it was removed`;
    case 'spelling':
    case 'sibling':
      return `it is a spelling of ${quoted(earlier)}, which is ${safetyClass}`;
  }
}

/** The actions to remember: those removed before and now, except those that the new manifest has. */
function removedBy(before: Earlier | null, after: readonly Capability[]): RemovedAction[] {
  if (before === null) return [];
  const listed = new Set(after.map(({ action }) => action));
  const now = before.capabilities.filter(
    ({ action, safetyClass }) => safetyClass !== 'NORMAL' && !isRestricted(action),
  );
  const all = [...(before.removed ?? []), ...now].filter(({ action }) => !listed.has(action));
  return withinBytes(all.map(({ action, safetyClass, paramSchema }) => ({ action, safetyClass, paramSchema })));
}

function withinBytes(removed: readonly RemovedAction[]): RemovedAction[] {
  let bytes = 0;
  return removed
    .toReversed()
    .map((one) => {
      bytes += jsonBytes(one.paramSchema);
      return bytes <= MAX_REMOVED_BYTES ? one : { ...one, paramSchema: null };
    })
    .toReversed();
}

const rank = (safetyClass: SafetyClass): number => safetyClasses.indexOf(safetyClass);

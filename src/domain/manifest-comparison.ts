import { foldedAction, isRestricted } from './capability-registry.ts';
import { jsonBytes, jsonEqual } from './json/value.ts';
import { type Capability, type Manifest, type RemovedAction, type SafetyClass, safetyClasses } from './manifest.ts';
import { quoted } from './quoted.ts';
import { type ComparisonBudget, newComparisonBudget, type Widening, widening } from './schema-widening.ts';
import type { Json, JsonObject } from './values.ts';
import { exposedParams, hasWriteOnly } from './write-only-params.ts';

// What a new manifest allows that the one before refused. Removed actions are remembered, so that two harmless changes
// (remove, add again) are not a way around the comparison.

/** Removed actions that a manifest remembers. One beyond this is refused. */
export const MAX_REMOVED = 200;
/** Size of the schemas and expected states of removed actions; the oldest are dropped beyond this. */
const MAX_REMOVED_BYTES = 64 * 1024;
/** Parameters that one sentence names. */
const MAX_NAMED = 10;

export interface ManifestComparison {
  /**
   * What gets weaker, one sentence each, the most important first. Empty: nothing, the change needs no confirmation. A
   * preview of a critical action that changes counts too: it is what the action is confirmed by.
   */
  weaker: string[];
  /** The members of actions that get weaker, such as `open_gate.safetyClass`. */
  changes: Record<string, { from: Json; to: Json }>;
  /** To store with the new manifest. */
  removed: RemovedAction[];
}

type Earlier = Pick<Manifest, 'capabilities' | 'removed'>;

/** The order in which they are shown: many harmless sentences must not come before an important one. */
const importance = ['class', 'new kind of parameters', 'preview', 'write-only', 'limits of parameters'] as const;
interface Sentence {
  about: (typeof importance)[number];
  text: string;
}

/** Compares with the device's current manifest, or null without one. */
export function compareManifests(before: Earlier | null, after: readonly Capability[]): ManifestComparison {
  const found: Found = { sentences: [], changes: {} };
  // One for the whole manifest: with many remembered actions the pairs would be their product.
  const budget = newComparisonBudget();
  for (const capability of after) {
    const floor = earlierOf(before, after, capability);
    if (floor !== null) compareAction(found, floor, capability, budget);
    compareWriteOnly(found, before, capability);
  }
  const sorted = found.sentences.toSorted((a, b) => importance.indexOf(a.about) - importance.indexOf(b.about));
  return { weaker: sorted.map(({ text }) => text), changes: found.changes, removed: removedBy(before, after) };
}

interface Found extends Pick<ManifestComparison, 'changes'> {
  sentences: Sentence[];
}

function compareAction(found: Found, floor: Floor, capability: Capability, budget: ComparisonBudget): void {
  const { action, safetyClass } = capability;
  if (rank(safetyClass) < rank(floor.safetyClass)) {
    const text = `${quoted(action)} ${consequenceOf(safetyClass)}: ${originOf(floor, action)}, and becomes ${safetyClass}.`;
    found.sentences.push({ about: 'class', text });
    found.changes[`${action}.safetyClass`] = { from: floor.safetyClass, to: safetyClass };
  }
  // A NORMAL action needs no confirmation whatever its parameters are.
  if (safetyClass === 'NORMAL') return;
  compareParameters(found, floor, capability, budget);
  comparePreviews(found, floor, capability);
}

function compareParameters(
  { sentences, changes }: Found,
  floor: Floor,
  { action, paramSchema }: Capability,
  budget: ComparisonBudget,
): void {
  const schemas = distinct(floor.forms.map((form) => form.paramSchema));
  const widest = schemas
    .map((from) => ({ from, ...(from === null ? unknownSchema : widening(from, paramSchema, budget)) }))
    .toSorted((a, b) => Number(b.newKinds) - Number(a.newKinds) || b.count - a.count)[0];
  if (widest === undefined || widest.count === 0) return;
  const { from, newKinds, reasons } = widest;
  sentences.push({
    about: newKinds ? 'new kind of parameters' : 'limits of parameters',
    text: `${quoted(action)} is ${floor.safetyClass} and accepts more parameters. ${reasons.join(' ')}`,
  });
  changes[`${action}.paramSchema`] = { from, to: paramSchema };
}

const unknownSchema: Widening = {
  count: 1,
  newKinds: true,
  reasons: ['Its earlier parameters and expected state are no longer known.'],
};

/** Of any class: commands store and show the values of parameters that are not marked any longer. */
function compareWriteOnly({ sentences, changes }: Found, before: Earlier | null, { action, paramSchema }: Capability) {
  const forms = [...(before?.capabilities ?? []), ...(before?.removed ?? [])].filter(
    (one) => foldedAction(one.action) === foldedAction(action),
  );
  if (isForgotten(before, action)) {
    const text = `${quoted(action)} was removed, and its earlier parameters are no longer known. They may have been writeOnly: commands will store and show the values of those that are not marked.`;
    sentences.push({ about: 'write-only', text });
    changes[`${action}.paramSchema`] ??= { from: null, to: paramSchema };
  }
  const schemas = forms.map((one) => one.paramSchema).filter((schema) => schema !== null);
  const exposed = [...new Set(schemas.flatMap((schema) => exposedParams(schema, paramSchema)))];
  if (exposed.length === 0) return;
  const names = exposed.slice(0, MAX_NAMED).map(quoted).join(', ');
  const more = exposed.length > MAX_NAMED ? ` and ${exposed.length - MAX_NAMED} more` : '';
  const text = `${quoted(action)} no longer marks ${names}${more} as writeOnly: commands will store and show the values.`;
  sentences.push({ about: 'write-only', text });
  changes[`${action}.paramSchema`] ??= { from: schemas[0] as JsonObject, to: paramSchema };
}

/**
 * Whether an action is added that was removed as NORMAL and is remembered without its schema. It was remembered because
 * it marked a parameter; of a higher class, the unknown schema or the lower class is confirmed anyway.
 */
function isForgotten(before: Earlier | null, action: string): boolean {
  if (before === null || before.capabilities.some((one) => one.action === action)) return false;
  return (before.removed ?? []).some(
    (one) =>
      foldedAction(one.action) === foldedAction(action) && one.safetyClass === 'NORMAL' && one.paramSchema === null,
  );
}

/** Any difference counts: which of two expected states says more about what an action does cannot be computed. */
function comparePreviews({ sentences, changes }: Found, { safetyClass, forms }: Floor, capability: Capability): void {
  const { action, supportsDryRun, expectedState = null } = capability;
  const comparable = forms.filter(({ paramSchema }) => paramSchema !== null);
  const name = `${quoted(action)} is ${safetyClass}`;
  const other = comparable.find((form) => !jsonEqual(form.expectedState, expectedState));
  if (other !== undefined) {
    const text = `${name} and is previewed and verified with another expected state.`;
    sentences.push({ about: 'preview', text });
    changes[`${action}.expectedState`] = { from: other.expectedState, to: expectedState };
  }
  const hasOther = ({ supportsDryRun: earlier }: EarlierForm): boolean =>
    earlier === undefined ? !supportsDryRun : earlier !== supportsDryRun;
  if (comparable.some(hasOther)) {
    const text = supportsDryRun
      ? `${name} and its confirmation will show the expected state, which it does not now.`
      : `${name} and its confirmation will no longer show what it changes.`;
    sentences.push({ about: 'preview', text });
    changes[`${action}.supportsDryRun`] = { from: !supportsDryRun, to: supportsDryRun };
  }
}

/** The strictest earlier form of an action, in any spelling of its name. */
interface Floor {
  safetyClass: SafetyClass;
  origin: 'same' | 'spelling' | 'removed' | 'sibling';
  action: string;
  /** What to compare parameters and previews with. */
  forms: EarlierForm[];
}

interface EarlierForm extends Pick<Capability, 'supportsDryRun'> {
  /** Null if it is no longer known, and then `expectedState` is not known either. */
  paramSchema: JsonObject | null;
  expectedState: JsonObject | null;
}

/** Null if no earlier action of this name is above NORMAL. */
function earlierOf(before: Earlier | null, after: readonly Capability[], { action }: Capability): Floor | null {
  const same = before?.capabilities.find((one) => one.action === action);
  if (same !== undefined) return floorOf([{ ...same, origin: 'same', form: formOf(same) }]);
  const isSimilar = (one: { action: string }) => foldedAction(one.action) === foldedAction(action);
  const spellings = (before?.capabilities ?? []).filter(isSimilar);
  const removed = (before?.removed ?? []).filter(isSimilar);
  return floorOf([
    ...spellings.map((one) => ({ ...one, origin: 'spelling' as const, form: formOf(one) })),
    ...removed.map((one) => ({ ...one, origin: 'removed' as const, form: formOf(one) })),
    // Its parameters and its preview are new too: there is nothing to compare them with.
    ...after
      .filter((one) => one.action !== action && isSimilar(one))
      .map((one) => ({ ...one, origin: 'sibling' as const, form: null })),
  ]);
}

type Candidate = Pick<Floor, 'action' | 'safetyClass' | 'origin'> & { form: EarlierForm | null };

const formOf = ({ paramSchema, supportsDryRun, expectedState }: Capability | RemovedAction): EarlierForm => ({
  paramSchema,
  supportsDryRun,
  expectedState: expectedState ?? null,
});

function floorOf(candidates: readonly Candidate[]): Floor | null {
  const strict = candidates.filter(({ safetyClass }) => safetyClass !== 'NORMAL');
  const [strictest] = strict.toSorted((a, b) => rank(b.safetyClass) - rank(a.safetyClass));
  if (strictest === undefined) return null;
  const { action, safetyClass, origin } = strictest;
  return { action, safetyClass, origin, forms: strict.flatMap(({ form }) => form ?? []) };
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
    ({ action, safetyClass, paramSchema }) =>
      (safetyClass !== 'NORMAL' || hasWriteOnly(paramSchema)) && !isRestricted(action),
  );
  const all = [...(before.removed ?? []), ...now].filter(({ action }) => !listed.has(action));
  return withinBytes(
    all.map(({ action, safetyClass, paramSchema, supportsDryRun, expectedState }) => ({
      ...{ action, safetyClass, paramSchema, supportsDryRun },
      ...(expectedState !== undefined && { expectedState }),
    })),
  );
}

function withinBytes(removed: readonly RemovedAction[]): RemovedAction[] {
  let bytes = 0;
  return removed
    .toReversed()
    .map((one) => {
      const { expectedState, ...rest } = one;
      bytes += jsonBytes(one.paramSchema) + (expectedState === undefined ? 0 : jsonBytes(expectedState));
      return bytes <= MAX_REMOVED_BYTES ? one : { ...rest, paramSchema: null };
    })
    .toReversed();
}

const rank = (safetyClass: SafetyClass): number => safetyClasses.indexOf(safetyClass);

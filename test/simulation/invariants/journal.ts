import type { Json } from '../../../src/domain/values.ts';
import type { ActorRow, JournalRow } from '../../support/memory-store/database.ts';
import type { World } from '../world/world.ts';

/**
 * Kinds whose every transition is journaled; reports of devices are not. The devices of a run report no progress twice.
 */
const journaledWhole: ReadonlySet<string> = new Set(['command', 'plan', 'tenant']);

interface Written {
  /** The version before the commit. */
  before: number;
  /** The newest journal entry before the commit. */
  last: JournalRow | null;
  row: ActorRow;
  /** The journal entries of the commit. */
  entries: readonly JournalRow[];
}

/** Versions increase by one, each has at most one journal entry, and every change of state has one. */
export function checkJournal(world: World, key: string, { before, last, row, entries }: Written): void {
  const { version, value, ref } = row;
  if (version < before) world.fail('versions-are-gapless', `${key} went from ${before} to ${version}`);
  let newest = before;
  for (const entry of entries) {
    if (entry.version <= newest || entry.version > version) {
      world.fail('versions-are-gapless', `${key}: journal entry ${entry.version} between ${newest} and ${version}`);
    }
    newest = entry.version;
  }
  if (journaledWhole.has(ref.kind) && entries.length !== version - before) {
    world.fail('each-version-is-journaled', `${key}: ${entries.length} entries of ${before + 1} to ${version}`);
  }
  const journaled = (state: Json): string => JSON.stringify(ref.kind === 'device' ? administrationIn(state) : state);
  let state = journaled(last?.to ?? null);
  for (const { from, to, event } of entries) {
    if (journaled(from) !== state) {
      world.fail('each-version-is-journaled', `${key}: ${event} in ${journaled(from)}, not in ${state}`);
    }
    state = journaled(to);
  }
  if (journaled(value) !== state) {
    world.fail('each-version-is-journaled', `${key} is ${journaled(value)}, journaled ${state}`);
  }
}

/**
 * At the end of a run, which is shorter than the retention of the journal, all entries of the actor exist. For a
 * device, at least as many versions have no entry as it reported states.
 */
export function checkStoredJournal(world: World, row: ActorRow, entries: readonly JournalRow[]): void {
  const { ref, version, context } = row;
  const versions = entries.map((entry) => entry.version);
  const isOrdered = versions.every((one, n) => one > (versions[n - 1] ?? 0) && one <= version);
  const whole = journaledWhole.has(ref.kind);
  const reported = whole ? 0 : Number(context.stateVersion);
  const isComplete = whole ? versions.length === version : versions.length + reported <= version;
  if (isOrdered && isComplete && versions[0] === 1) return;
  const detail = `version ${version}, ${reported} reported states, journal entries of ${versions.join(', ')}`;
  world.fail('versions-are-gapless', `${ref.kind} ${ref.id}: ${detail}`);
}

/** Whether a device is connected is telemetry. */
const administrationIn = (state: Json): Json => (state as { administration: Json } | null)?.administration ?? null;

import type { ActorRef } from '../../../src/machines/outputs.ts';
import { actorKey, type JournalRow } from '../../support/memory-store/database.ts';
import type { World } from '../world/world.ts';

/** A stored commit: versions `from + 1` to `to` of one actor. */
interface Commit {
  from: number;
  to: number;
  /** The event of each version that has a journal entry. */
  journaled: ReadonlyMap<number, string>;
  /** The version of the last released transition; `from` before the first. */
  released: number;
}

/**
 * Device events without a mandatory journal entry: reports, presence, and the timer of a key's grace period where it
 * only sets the timer again. Every other event of every actor is journaled; the devices of a run report no progress
 * twice.
 */
const unjournaled: ReadonlySet<string> = new Set([
  'hello.received',
  'heartbeat.received',
  'state.reported',
  'ack.reported',
  'message.rejected',
  'presence.lost',
  'xstate.after.graceOver.device.administration.active.two_keys',
]);

/** Number of commits remembered per actor: a commit is released before the next decision of the actor, or never. */
const MOST_REMEMBERED = 8;

/**
 * Compares the versions of stored commits with the released transitions: a commit raises the version by one for each of
 * its transitions. All transitions of a commit are released, or none if the process does not learn its outcome.
 */
export class VersionInvariants {
  readonly #world: World;
  /** By actor, oldest first. */
  readonly #commits = new Map<string, Commit[]>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Records a stored commit that raised the version of `key` from `from` to `to`. */
  stored(key: string, { from, to, entries }: { from: number; to: number; entries: readonly JournalRow[] }): void {
    const all = this.#commits.get(key) ?? [];
    const last = all.at(-1);
    if (last !== undefined) this.#checkReleased(key, last);
    const journaled = new Map(entries.map(({ version, event }) => [version, event]));
    this.#commits.set(key, [...all.slice(1 - MOST_REMEMBERED), { from, to, journaled, released: from }]);
  }

  /** Records that a process released the transition of an actor to `version`. */
  released(ref: ActorRef, version: number, event: string): void {
    const key = actorKey(ref);
    const commit = this.#commits.get(key)?.findLast(({ from, to }) => from < version && version <= to);
    if (commit === undefined) {
      this.#world.fail('versions-are-gapless', `${key}: ${event} was released as ${version}, which is not stored`);
      return;
    }
    this.#world.count('transitions released');
    const { released, from, to, journaled } = commit;
    if (version !== released + 1) {
      const detail = `${event} was released as ${version} after ${released}, in the commit of ${from + 1} to ${to}`;
      this.#world.fail('versions-are-gapless', `${key}: ${detail}`);
    }
    commit.released = version;
    const entry = journaled.get(version) ?? null;
    if (entry === event || (entry === null && ref.kind === 'device' && unjournaled.has(event))) return;
    this.#world.fail('each-version-is-journaled', `${key}: ${event} is version ${version}, whose entry is ${entry}`);
  }

  /** Called at the end of a run, when no release is in progress. */
  checkAll(): void {
    for (const [key, commits] of this.#commits) for (const commit of commits) this.#checkReleased(key, commit);
  }

  #checkReleased(key: string, { from, to, released }: Commit): void {
    if (released === from || released === to) return;
    const detail = `the version rose from ${from} to ${to} with ${released - from} transitions`;
    this.#world.fail('versions-are-gapless', `${key}: ${detail}`);
  }
}

import type { Actors } from '../../actors/contract.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActorKind } from '../../machines/outputs.ts';
import type { AccessRequirement } from '../shared/live/subscription.ts';
import { type ResourceKind, resources } from './resources.ts';

/** Of one session. */
const MOST_SUBSCRIPTIONS = 200;
/** What changes again and again is told once in so long. */
export const REST_MS = 100;

/** Who is told that a resource changed. */
export interface Follower {
  tenantId: Uuid | null;
  /** Its session is over: it follows nothing any more, whatever it asked for before. */
  readonly gone: boolean;
  /** Tells what changed; false where nobody reads just now, and then it is told later. */
  tell(uris: readonly string[]): boolean;
}

interface Followed {
  uri: string;
  kind: ResourceKind;
}

/** Follows the live actors for those who subscribed to what they are. */
export interface Subscriptions extends SizeReporter {
  /** False where the follower has too many, or is gone. */
  add(follower: Follower, named: Followed & { id: Uuid }): boolean;
  remove(follower: Follower, named: Followed & { id: Uuid }): void;
  leave(follower: Follower): void;
  /** What hearing what it follows takes. */
  needs(follower: Follower): ReadonlyMap<string, AccessRequirement>;
  /** Tells whoever did not read before what changed meanwhile. */
  flush(): void;
  /** The same for one of them. */
  catchUp(follower: Follower): void;
  close(): void;
}

export function followActors(actors: Pick<Actors, 'subscribeTransitions'>): Subscriptions {
  /** Followers by what they follow: `device <id>`. */
  const audiences = new Map<string, Set<Follower>>();
  const followed = new Map<Follower, Map<string, Followed>>();
  const dirty = new Map<Follower, Set<string>>();
  let flushing: NodeJS.Timeout | null = null;
  let stop: (() => void) | null = null;

  function changed(key: string): void {
    for (const follower of audiences.get(key) ?? []) mark(follower, key);
  }

  function mark(follower: Follower, key: string): void {
    const keys = dirty.get(follower) ?? new Set<string>();
    dirty.set(follower, keys.add(key));
    flushing ??= setTimeout(flush, REST_MS).unref();
  }

  function flush(): void {
    if (flushing !== null) clearTimeout(flushing);
    flushing = null;
    for (const follower of dirty.keys()) catchUp(follower);
  }

  function catchUp(follower: Follower): void {
    const uris = [...(dirty.get(follower) ?? [])].flatMap((key) => followed.get(follower)?.get(key)?.uri ?? []);
    if (uris.length === 0 || follower.tell(uris)) dirty.delete(follower);
  }

  /** Nothing is listened for while nobody follows anything: telemetry is frequent. */
  function listen(): void {
    stop ??= actors.subscribeTransitions(({ ref, snapshot }, event) => {
      changed(`${ref.kind} ${ref.id}`);
      if (ref.kind !== 'device') return;
      const { homeId, tenantId } = snapshot.context as { homeId: Uuid | null; tenantId: Uuid };
      if (homeId !== null) changed(`home ${homeId}`);
      // It may have left another home, which it does not name any more.
      if (event.type === 'patch') homesOf(tenantId);
    });
  }

  function homesOf(tenantId: Uuid): void {
    for (const [follower, theirs] of followed) {
      if (follower.tenantId !== tenantId) continue;
      for (const [key, { kind }] of theirs) if (kind === 'homes') mark(follower, key);
    }
  }

  function drop(follower: Follower, key: string): void {
    const audience = audiences.get(key);
    audience?.delete(follower);
    if (audience?.size === 0) audiences.delete(key);
  }

  function leave(follower: Follower): void {
    for (const key of followed.get(follower)?.keys() ?? []) drop(follower, key);
    followed.delete(follower);
    dirty.delete(follower);
    rest();
  }

  function rest(): void {
    if (followed.size > 0) return;
    stop?.();
    stop = null;
  }

  return {
    add(follower, { uri, kind, id }) {
      if (follower.gone) return false;
      const theirs = followed.get(follower) ?? new Map<string, Followed>();
      const key = keyOf(kind, id);
      if (!theirs.has(key) && theirs.size >= MOST_SUBSCRIPTIONS) return false;
      followed.set(follower, theirs.set(key, { uri, kind }));
      audiences.set(key, (audiences.get(key) ?? new Set<Follower>()).add(follower));
      listen();
      return true;
    },
    remove(follower, { kind, id }) {
      const key = keyOf(kind, id);
      const theirs = followed.get(follower);
      theirs?.delete(key);
      drop(follower, key);
      dirty.get(follower)?.delete(key);
      if (theirs?.size === 0) leave(follower);
    },
    leave,
    needs(follower) {
      const kinds = new Set([...(followed.get(follower)?.values() ?? [])].map(({ kind }) => kind));
      return new Map([...kinds].flatMap((kind) => needsOf(kind)));
    },
    flush,
    catchUp,
    sizes: () => ({
      mcp_followed_resources: audiences.size,
      mcp_followers: followed.size,
      mcp_followers_to_notify: dirty.size,
    }),
    close() {
      stop?.();
      if (flushing !== null) clearTimeout(flushing);
    },
  };
}

const actorOf: Readonly<Record<ResourceKind, ActorKind | 'home'>> = { homes: 'home', devices: 'device', plans: 'plan' };

const keyOf = (kind: ResourceKind, id: Uuid): string => `${actorOf[kind]} ${id}`;

function needsOf(kind: ResourceKind): [string, AccessRequirement][] {
  const { role, scope } = resources[kind].operation;
  return role === null || scope === null ? [] : [[kind, { role, scope }]];
}

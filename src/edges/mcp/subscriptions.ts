import type { Actors } from '../../actors/contract.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActorKind } from '../../machines/outputs.ts';
import type { AccessRequirement } from '../shared/live/subscription.ts';
import { type ResourceKind, resources } from './resources.ts';

/** Of one session. */
const MAX_SUBSCRIPTIONS = 200;
/** What changes again and again is told once in so long. */
export const NOTIFY_INTERVAL_MS = 100;

/** Who is told that a resource changed. */
export interface Subscriber {
  tenantId: Uuid | null;
  /** Its session is over: it follows nothing any more, whatever it asked for before. */
  readonly isClosed: boolean;
  /** Tells what changed; false where nobody reads just now, and then it is told later. */
  notify(uris: readonly string[]): boolean;
}

interface SubscribedResource {
  uri: string;
  kind: ResourceKind;
}

/** Follows the live actors for those who subscribed to what they are. */
export interface Subscriptions extends SizeReporter {
  /** False where the follower has too many, or is gone. */
  add(follower: Subscriber, named: SubscribedResource & { id: Uuid }): boolean;
  remove(follower: Subscriber, named: SubscribedResource & { id: Uuid }): void;
  removeSubscriber(follower: Subscriber): void;
  /** What hearing what it follows takes. */
  requiredAccess(follower: Subscriber): ReadonlyMap<string, AccessRequirement>;
  /** Tells whoever did not read before what changed meanwhile. */
  flush(): void;
  /** The same for one of them. */
  flushSubscriber(follower: Subscriber): void;
  close(): void;
}

export function makeSubscriptions(actors: Pick<Actors, 'subscribeTransitions'>): Subscriptions {
  /** Followers by what they follow: `device <id>`. */
  const audiences = new Map<string, Set<Subscriber>>();
  const followed = new Map<Subscriber, Map<string, SubscribedResource>>();
  const dirty = new Map<Subscriber, Set<string>>();
  let flushing: NodeJS.Timeout | null = null;
  let stop: (() => void) | null = null;

  function changed(key: string): void {
    for (const follower of audiences.get(key) ?? []) mark(follower, key);
  }

  function mark(follower: Subscriber, key: string): void {
    const keys = dirty.get(follower) ?? new Set<string>();
    dirty.set(follower, keys.add(key));
    flushing ??= setTimeout(flush, NOTIFY_INTERVAL_MS).unref();
  }

  function flush(): void {
    if (flushing !== null) clearTimeout(flushing);
    flushing = null;
    for (const follower of dirty.keys()) catchUp(follower);
  }

  function catchUp(follower: Subscriber): void {
    const uris = [...(dirty.get(follower) ?? [])].flatMap((key) => followed.get(follower)?.get(key)?.uri ?? []);
    if (uris.length === 0 || follower.notify(uris)) dirty.delete(follower);
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

  function drop(follower: Subscriber, key: string): void {
    const audience = audiences.get(key);
    audience?.delete(follower);
    if (audience?.size === 0) audiences.delete(key);
  }

  function leave(follower: Subscriber): void {
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
      if (follower.isClosed) return false;
      const theirs = followed.get(follower) ?? new Map<string, SubscribedResource>();
      const key = keyOf(kind, id);
      if (!theirs.has(key) && theirs.size >= MAX_SUBSCRIPTIONS) return false;
      followed.set(follower, theirs.set(key, { uri, kind }));
      audiences.set(key, (audiences.get(key) ?? new Set<Subscriber>()).add(follower));
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
    removeSubscriber: leave,
    requiredAccess(follower) {
      const kinds = new Set([...(followed.get(follower)?.values() ?? [])].map(({ kind }) => kind));
      return new Map([...kinds].flatMap((kind) => requiredAccessOf(kind)));
    },
    flush,
    flushSubscriber: catchUp,
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

const actorKinds: Readonly<Record<ResourceKind, ActorKind | 'home'>> = {
  homes: 'home',
  devices: 'device',
  plans: 'plan',
};

const keyOf = (kind: ResourceKind, id: Uuid): string => `${actorKinds[kind]} ${id}`;

function requiredAccessOf(kind: ResourceKind): [string, AccessRequirement][] {
  const { role, scope } = resources[kind].operation;
  return role === null || scope === null ? [] : [[kind, { role, scope }]];
}

import type { Actors } from '../../actors/contract.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActorKind } from '../../machines/outputs.ts';
import type { AccessRequirement } from '../shared/live/subscription.ts';
import { type ResourceKind, resources } from './resources.ts';

/** Per session. */
const MAX_SUBSCRIPTIONS = 200;
/** Notifications about one resource are coalesced over this time. */
export const NOTIFY_INTERVAL_MS = 100;

/** Receives notifications about changed resources. */
export interface Subscriber {
  tenantId: Uuid | null;
  /** The session has ended: new subscriptions are ignored. */
  readonly isClosed: boolean;
  /** Sends the changed URIs. False if the client cannot receive them now; then they are sent later. */
  notify(uris: readonly string[]): boolean;
}

interface SubscribedResource {
  uri: string;
  kind: ResourceKind;
}

/** Resource subscriptions: notifies subscribers when the live actor behind a resource changes. */
export interface Subscriptions extends SizeReporter {
  /** False if the subscriber has too many subscriptions or is closed. */
  add(subscriber: Subscriber, named: SubscribedResource & { id: Uuid }): boolean;
  remove(subscriber: Subscriber, named: SubscribedResource & { id: Uuid }): void;
  removeSubscriber(subscriber: Subscriber): void;
  /** Role and scope that the subscriptions of this subscriber need. */
  requiredAccess(subscriber: Subscriber): ReadonlyMap<string, AccessRequirement>;
  /** Sends the pending notifications of all subscribers. */
  flush(): void;
  /** Sends the pending notifications of one subscriber. */
  flushSubscriber(subscriber: Subscriber): void;
  close(): void;
}

export function makeSubscriptions(actors: Pick<Actors, 'subscribeTransitions'>): Subscriptions {
  /** Subscribers by resource key: `device <id>`. */
  const subscribersByKey = new Map<string, Set<Subscriber>>();
  const resourcesBySubscriber = new Map<Subscriber, Map<string, SubscribedResource>>();
  const dirty = new Map<Subscriber, Set<string>>();
  let flushTimer: NodeJS.Timeout | null = null;
  let unsubscribe: (() => void) | null = null;

  function markChanged(key: string): void {
    for (const subscriber of subscribersByKey.get(key) ?? []) markDirty(subscriber, key);
  }

  function markDirty(subscriber: Subscriber, key: string): void {
    const keys = dirty.get(subscriber) ?? new Set<string>();
    dirty.set(subscriber, keys.add(key));
    flushTimer ??= setTimeout(flush, NOTIFY_INTERVAL_MS).unref();
  }

  function flush(): void {
    if (flushTimer !== null) clearTimeout(flushTimer);
    flushTimer = null;
    for (const subscriber of dirty.keys()) flushSubscriber(subscriber);
  }

  function flushSubscriber(subscriber: Subscriber): void {
    const resourcesByKey = resourcesBySubscriber.get(subscriber);
    const uris = [...(dirty.get(subscriber) ?? [])].flatMap((key) => resourcesByKey?.get(key)?.uri ?? []);
    if (uris.length === 0 || subscriber.notify(uris)) dirty.delete(subscriber);
  }

  /** Subscribes to transitions only while there are subscriptions: telemetry is frequent. */
  function subscribeToActors(): void {
    unsubscribe ??= actors.subscribeTransitions(({ ref, snapshot }, event) => {
      markChanged(`${ref.kind} ${ref.id}`);
      if (ref.kind !== 'device') return;
      const { homeId, tenantId } = snapshot.context as { homeId: Uuid | null; tenantId: Uuid };
      if (homeId !== null) markChanged(`home ${homeId}`);
      // The device may have left another home, which is unknown here.
      if (event.type === 'patch') markHomesChanged(tenantId);
    });
  }

  function markHomesChanged(tenantId: Uuid): void {
    for (const [subscriber, subscribed] of resourcesBySubscriber) {
      if (subscriber.tenantId !== tenantId) continue;
      for (const [key, { kind }] of subscribed) if (kind === 'homes') markDirty(subscriber, key);
    }
  }

  function removeFromKey(subscriber: Subscriber, key: string): void {
    const subscribers = subscribersByKey.get(key);
    subscribers?.delete(subscriber);
    if (subscribers?.size === 0) subscribersByKey.delete(key);
  }

  function removeSubscriber(subscriber: Subscriber): void {
    for (const key of resourcesBySubscriber.get(subscriber)?.keys() ?? []) removeFromKey(subscriber, key);
    resourcesBySubscriber.delete(subscriber);
    dirty.delete(subscriber);
    if (resourcesBySubscriber.size > 0) return;
    unsubscribe?.();
    unsubscribe = null;
  }

  return {
    add(subscriber, { uri, kind, id }) {
      if (subscriber.isClosed) return false;
      const subscribed = resourcesBySubscriber.get(subscriber) ?? new Map<string, SubscribedResource>();
      const key = keyOf(kind, id);
      if (!subscribed.has(key) && subscribed.size >= MAX_SUBSCRIPTIONS) return false;
      resourcesBySubscriber.set(subscriber, subscribed.set(key, { uri, kind }));
      subscribersByKey.set(key, (subscribersByKey.get(key) ?? new Set<Subscriber>()).add(subscriber));
      subscribeToActors();
      return true;
    },
    remove(subscriber, { kind, id }) {
      const key = keyOf(kind, id);
      const subscribed = resourcesBySubscriber.get(subscriber);
      subscribed?.delete(key);
      removeFromKey(subscriber, key);
      dirty.get(subscriber)?.delete(key);
      if (subscribed?.size === 0) removeSubscriber(subscriber);
    },
    removeSubscriber,
    requiredAccess(subscriber) {
      const kinds = new Set([...(resourcesBySubscriber.get(subscriber)?.values() ?? [])].map(({ kind }) => kind));
      return new Map([...kinds].flatMap((kind) => requiredAccessOf(kind)));
    },
    flush,
    flushSubscriber,
    sizes: () => ({
      mcp_followed_resources: subscribersByKey.size,
      mcp_followers: resourcesBySubscriber.size,
      mcp_followers_to_notify: dirty.size,
    }),
    close() {
      unsubscribe?.();
      if (flushTimer !== null) clearTimeout(flushTimer);
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

import type { Actors } from '../../actors/contract.ts';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActorKind } from '../../machines/outputs.ts';
import type { Caller } from '../../operations/operation.ts';
import { checkAccess } from '../shared/live/authorization.ts';
import type { LiveReach } from '../shared/live/live-reach.ts';
import { type LiveSubject, readAccess } from '../shared/live/read-access.ts';
import { type AccessRequirement, NO_SUBSCRIPTION } from '../shared/live/subscription.ts';
import type { ResourceKind } from './resources.ts';

/** Per session. */
export const MAX_SUBSCRIPTIONS = 200;
/** Notifications about one resource are coalesced over this time. */
export const NOTIFY_INTERVAL_MS = 100;

/** Receives notifications about changed resources. */
export interface Subscriber {
  tenantId: Uuid | null;
  /** Of a session of a restricted key. */
  readonly reach: LiveReach | null;
  /** The session has ended: new subscriptions are ignored. */
  readonly isClosed: boolean;
  /** The caller of the last request; absent if it never changes. */
  readonly caller?: Caller;
  /** Sends the changed URIs. False if the client cannot receive them now; then they are sent later. */
  notify(uris: readonly string[]): boolean;
}

interface SubscribedResource {
  uri: string;
  kind: ResourceKind;
}

/** Resource subscriptions: notifies subscribers when the live actor behind a resource changes. */
export class Subscriptions implements SizeReporter {
  readonly #actors: Pick<Actors, 'subscribeTransitions'>;
  /** Subscribers by resource key: `device <id>`. */
  readonly #subscribersByKey = new Map<string, Set<Subscriber>>();
  readonly #resourcesBySubscriber = new Map<Subscriber, Map<string, SubscribedResource>>();
  readonly #dirty = new Map<Subscriber, Set<string>>();
  #flushTimer: NodeJS.Timeout | null = null;
  #unsubscribe: (() => void) | null = null;

  constructor(actors: Pick<Actors, 'subscribeTransitions'>) {
    this.#actors = actors;
  }

  /** False if the subscriber has too many subscriptions or is closed. */
  add(subscriber: Subscriber, { uri, kind, id }: SubscribedResource & { id: Uuid }): boolean {
    if (subscriber.isClosed) return false;
    const subscribed = this.#resourcesBySubscriber.get(subscriber) ?? new Map<string, SubscribedResource>();
    const key = keyOf(kind, id);
    if (!subscribed.has(key) && subscribed.size >= MAX_SUBSCRIPTIONS) return false;
    this.#resourcesBySubscriber.set(subscriber, subscribed.set(key, { uri, kind }));
    this.#subscribersByKey.set(key, (this.#subscribersByKey.get(key) ?? new Set<Subscriber>()).add(subscriber));
    this.#subscribeToActors();
    return true;
  }

  remove(subscriber: Subscriber, { kind, id }: SubscribedResource & { id: Uuid }): void {
    this.#removeKey(subscriber, keyOf(kind, id));
  }

  /** Ends the subscriptions that this caller, who uses the session now, could not make. */
  removeRefused(subscriber: Subscriber, caller: Caller): void {
    for (const [key, { kind }] of [...(this.#resourcesBySubscriber.get(subscriber) ?? [])])
      if (checkAccess(caller, { ...NO_SUBSCRIPTION, kinds: requiredAccessOf(kind) }) !== null)
        this.#removeKey(subscriber, key);
  }

  /** Role and scope that the subscriptions of this subscriber need. */
  requiredAccess(subscriber: Subscriber): ReadonlyMap<string, AccessRequirement> {
    const kinds = new Set([...(this.#resourcesBySubscriber.get(subscriber)?.values() ?? [])].map(({ kind }) => kind));
    return new Map([...kinds].flatMap((kind) => [...requiredAccessOf(kind)]));
  }

  sizes(): CollectionSizes {
    return {
      mcp_followed_resources: this.#subscribersByKey.size,
      mcp_followers: this.#resourcesBySubscriber.size,
      mcp_followers_to_notify: this.#dirty.size,
    };
  }

  close(): void {
    this.#unsubscribe?.();
    if (this.#flushTimer !== null) clearTimeout(this.#flushTimer);
  }

  /** Sends the pending notifications of all subscribers. */
  flush(): void {
    if (this.#flushTimer !== null) clearTimeout(this.#flushTimer);
    this.#flushTimer = null;
    for (const subscriber of this.#dirty.keys()) this.flushSubscriber(subscriber);
  }

  /** Sends the pending notifications of one subscriber. */
  flushSubscriber(subscriber: Subscriber): void {
    // A request of the caller before may have subscribed after the session was used with another token.
    if (subscriber.caller !== undefined) this.removeRefused(subscriber, subscriber.caller);
    const resourcesByKey = this.#resourcesBySubscriber.get(subscriber);
    const uris = [...(this.#dirty.get(subscriber) ?? [])].flatMap((key) => resourcesByKey?.get(key)?.uri ?? []);
    if (uris.length === 0 || subscriber.notify(uris)) this.#dirty.delete(subscriber);
  }

  removeSubscriber(subscriber: Subscriber): void {
    for (const key of this.#resourcesBySubscriber.get(subscriber)?.keys() ?? []) this.#removeFromKey(subscriber, key);
    this.#resourcesBySubscriber.delete(subscriber);
    this.#dirty.delete(subscriber);
    if (this.#resourcesBySubscriber.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = null;
  }

  /** `deviceId`: the device that changed, unless an actor of another kind did. */
  #markChanged(key: string, deviceId: Uuid | null): void {
    for (const subscriber of this.#subscribersByKey.get(key) ?? []) this.#markReached(subscriber, key, deviceId);
  }

  #markReached(subscriber: Subscriber, key: string, deviceId: Uuid | null): void {
    if (subscriber.reach === null) this.#markDirty(subscriber, key);
    else
      subscriber.reach.deliver(deviceId, () => {
        if (this.#resourcesBySubscriber.get(subscriber)?.has(key)) this.#markDirty(subscriber, key);
      });
  }

  #markDirty(subscriber: Subscriber, key: string): void {
    const keys = this.#dirty.get(subscriber) ?? new Set<string>();
    this.#dirty.set(subscriber, keys.add(key));
    this.#flushTimer ??= setTimeout(() => this.flush(), NOTIFY_INTERVAL_MS).unref();
  }

  /** Subscribes to transitions only while there are subscriptions: telemetry is frequent. */
  #subscribeToActors(): void {
    this.#unsubscribe ??= this.#actors.subscribeTransitions(({ ref, snapshot }, event) => {
      this.#markChanged(`${ref.kind} ${ref.id}`, ref.kind === 'device' ? ref.id : null);
      if (ref.kind !== 'device') return;
      const { homeId, tenantId } = snapshot.context.fixed as { homeId: Uuid | null; tenantId: Uuid };
      if (homeId !== null) this.#markChanged(`home ${homeId}`, ref.id);
      // The device may have left another home, which is unknown here.
      if (event.type === 'patch') this.#markHomesChanged(tenantId, ref.id);
    });
  }

  #markHomesChanged(tenantId: Uuid, deviceId: Uuid): void {
    for (const [subscriber, subscribed] of this.#resourcesBySubscriber) {
      if (subscriber.tenantId !== tenantId) continue;
      for (const [key, { kind }] of subscribed) if (kind === 'homes') this.#markReached(subscriber, key, deviceId);
    }
  }

  #removeKey(subscriber: Subscriber, key: string): void {
    const subscribed = this.#resourcesBySubscriber.get(subscriber);
    subscribed?.delete(key);
    this.#removeFromKey(subscriber, key);
    this.#dirty.get(subscriber)?.delete(key);
    if (subscribed?.size === 0) this.removeSubscriber(subscriber);
  }

  #removeFromKey(subscriber: Subscriber, key: string): void {
    const subscribers = this.#subscribersByKey.get(key);
    subscribers?.delete(subscriber);
    if (subscribers?.size === 0) this.#subscribersByKey.delete(key);
  }
}

const actorKinds: Readonly<Record<ResourceKind, ActorKind | 'home'>> = {
  homes: 'home',
  devices: 'device',
  plans: 'plan',
};

const keyOf = (kind: ResourceKind, id: Uuid): string => `${actorKinds[kind]} ${id}`;

/** What the notifications about a resource reveal: those about a home follow from changes of its devices. */
const revealedBy: Readonly<Record<ResourceKind, readonly LiveSubject[]>> = {
  homes: ['home', 'device'],
  devices: ['device'],
  plans: ['plan'],
};

/** Role and scope that a subscription to resources of this kind needs. */
export const requiredAccessOf = (kind: ResourceKind): ReadonlyMap<string, AccessRequirement> =>
  new Map(revealedBy[kind].map((subject) => [subject, readAccess(subject)]));

import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { LRUCache } from 'lru-cache';
import { type CapabilitySet, RuntimeEventSchema } from '#proto/cognition/v1/runtime_pb.js';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Log } from '../../domain/log.ts';
import type { Manifest } from '../../domain/manifest.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type { ActiveContext, Cognition, WorldDevice } from '../../operations/cognition/contract.ts';
import type { CallHandle } from './call.ts';
import { capabilitySetOf, registryCapabilitySets } from './capability-sets.ts';
import { buildPerceptionUpdate } from './perception.ts';
import type { SidecarLimits } from './sidecar-limits.ts';
import { type PerceptionScope, type WatchedScope, WorldUpdateScheduler } from './world-update-scheduler.ts';

type EventPayload = NonNullable<MessageInitShape<typeof RuntimeEventSchema>['event']>;
/** A queued event. The function form reads its data when the event is written. */
export type OutgoingEvent = EventPayload | (() => Promise<EventPayload>);

export interface EventSenderParts {
  call: CallHandle;
  cognition: Pick<Cognition, 'active' | 'context' | 'world' | 'memories'>;
  clock: Clock;
  limits: SidecarLimits;
  log: Log;
  onSent(kind: string): void;
  /** The queue is full. The stream has to be closed; the next one starts with a full synchronization. */
  onOverflow(): void;
}

/** Set ids remembered as sent. Beyond it the memory is cleared, and sets are sent again. */
const MAX_SYNCED_SETS = 10_000;
/** Per event: a manifest has at most 256 KiB. */
const SETS_PER_EVENT = 4;
/** Changed sets that wait to be sent: one may take some hundred KiB. */
const MAX_PENDING_SETS = 200;
/** Queued events written in a row before a perception update is due. */
const MAX_CONSECUTIVE_EVENTS = 50;
/** Pause after a failed read. */
const RETRY_MS: Milliseconds = 1_000;
/** Minimum time between two warnings. */
const WARN_MS: Milliseconds = 60_000;

/**
 * Sends all events of one stream: first the capability sets, then the active contexts with the world around them, then
 * changes as they happen. One write is in progress at a time and the queue is bounded, so a sidecar that does not read
 * delays only itself; when the queue overflows, the stream is closed.
 */
export class EventSender {
  readonly scheduler: WorldUpdateScheduler;
  readonly #parts: EventSenderParts;
  readonly #syncedSets = new Set<string>();
  /** The last hash sent for each home without active contexts. */
  readonly #idleWorldHashes: LRUCache<Uuid, string>;
  readonly #openedContexts = new Set<Uuid>();
  /** Active contexts exist beyond `maxContexts`. */
  #hasContextsLeftOut = false;
  /** Changed sets to send, by id. */
  readonly #pendingSets = new Map<string, CapabilitySet>();
  #queue: OutgoingEvent[] = [];
  #eventId = 0n;
  #stopped = false;
  #nextWarningAt: Milliseconds = 0;
  #wake: (() => void) | null = null;

  constructor(parts: EventSenderParts) {
    this.#parts = parts;
    this.scheduler = new WorldUpdateScheduler(parts.limits);
    this.#idleWorldHashes = new LRUCache({ max: parts.limits.maxIdleHomes });
  }

  sizes(): CollectionSizes {
    return {
      ...this.scheduler.sizes(),
      sidecar_sets_told: this.#syncedSets.size,
      sidecar_sets_learnt: this.#pendingSets.size,
      sidecar_contexts_opened: this.#openedContexts.size,
      sidecar_world_hashes: this.#idleWorldHashes.size,
      sidecar_events: this.#queue.length,
    };
  }

  /** Runs until the stream is closed. */
  async run(): Promise<void> {
    await this.#syncCapabilities(registryCapabilitySets(), Number.POSITIVE_INFINITY);
    await this.#refreshContexts();
    for (let streak = 0; !this.#stopped; ) {
      const sentEvent = await this.#sendNext(streak).catch((error: unknown) => this.#logFailure(error, 'event'));
      streak = sentEvent ? streak + 1 : 0;
    }
  }

  /** A failed read or encoding is logged and skipped; the sender continues with the next event. */
  #logFailure(error: unknown, what: string): false {
    const now = performance.now();
    if (this.#stopped || now < this.#nextWarningAt) return false;
    this.#nextWarningAt = now + WARN_MS;
    this.#parts.log.warn({ err: error, what }, 'sidecar event dropped or delayed');
    return false;
  }

  #retry(act: () => void): void {
    setTimeout(() => {
      if (!this.#stopped) act();
    }, RETRY_MS).unref();
  }

  send(event: OutgoingEvent): void {
    if (this.#stopped) return;
    this.#queue.push(event);
    if (this.#queue.length > this.#parts.limits.maxQueuedEvents) this.#parts.onOverflow();
    else this.notify();
  }

  /** The context waits for the sidecar. It is loaded by the sender's loop. */
  openContext(contextId: Uuid): void {
    if (this.#stopped) return;
    if (this.scheduler.contextCount + this.#openedContexts.size >= this.#parts.limits.maxContexts)
      this.#hasContextsLeftOut = true;
    else this.#openedContexts.add(contextId);
    this.notify();
  }

  /** The context no longer waits for the sidecar. This may make room for contexts beyond the limit. */
  closeContext(contextId: Uuid): void {
    this.scheduler.closeContext(contextId);
    this.notify();
  }

  /**
   * Queues a changed manifest. Beyond `MAX_PENDING_SETS` it is sent later, with the next update that has its device.
   */
  enqueueManifest(manifest: Manifest): void {
    if (this.#stopped || this.#pendingSets.size >= MAX_PENDING_SETS) return;
    const set = capabilitySetOf(manifest);
    this.#pendingSets.set(set.capabilitySetId, set);
    this.notify();
  }

  /** Wakes the sender's loop. */
  notify(): void {
    this.#wake?.();
  }

  stop(): void {
    this.#stopped = true;
    this.#queue = [];
    this.notify();
  }

  /** True if a queued event was written. */
  async #sendNext(streak: number): Promise<boolean> {
    if (this.#pendingSets.size > 0) {
      const changedSets = [...this.#pendingSets.values()];
      this.#pendingSets.clear();
      await this.#syncCapabilities(changedSets);
    }
    const queue = this.#queue;
    const { scheduler } = this;
    if (queue.length > 0 && streak < MAX_CONSECUTIVE_EVENTS) {
      await this.#write(queue.shift() as OutgoingEvent);
      return true;
    }
    for (const id of [...this.#openedContexts]) await this.#loadContext(id);
    if (this.#hasContextsLeftOut && this.#hasCapacity) await this.#refreshContexts();
    const now = performance.now();
    const watched = scheduler.takeNext(now);
    if (watched !== null) {
      await this.#sendPerception(watched).catch((error: unknown) => {
        this.#logFailure(error, 'perception update');
        scheduler.reschedule(watched, performance.now());
      });
    } else if (queue.length + this.#pendingSets.size + this.#openedContexts.size === 0) {
      const home = scheduler.takeNextIdleHome(now);
      if (home !== null) await this.#sendIdlePerception(home);
      else await this.#waitForWork(scheduler.delayUntilNext(now));
    }
    return false;
  }

  async #loadContext(contextId: Uuid): Promise<void> {
    this.#openedContexts.delete(contextId);
    try {
      const context = await this.#parts.cognition.context(contextId);
      if (context !== null) this.scheduler.openContext(context);
    } catch (error) {
      this.#logFailure(error, 'context');
      this.#retry(() => this.openContext(contextId));
    }
  }

  /** Registers the contexts that wait for the sidecar, up to `maxContexts`. */
  async #loadActiveContexts(): Promise<void> {
    const { scheduler } = this;
    this.#hasContextsLeftOut = false;
    for await (const context of this.#parts.cognition.active()) {
      if (this.#stopped) return;
      if (scheduler.hasContext(context.id)) continue;
      if (scheduler.contextCount >= this.#parts.limits.maxContexts) {
        this.#hasContextsLeftOut = true;
        return;
      }
      scheduler.openContext(context);
    }
  }

  /** At least 10 % free: reading all active contexts again is worth the cost. */
  get #hasCapacity(): boolean {
    return this.scheduler.contextCount + this.#openedContexts.size <= this.#parts.limits.maxContexts * 0.9;
  }

  async #refreshContexts(): Promise<void> {
    try {
      await this.#loadActiveContexts();
    } catch (error) {
      this.#logFailure(error, 'active contexts');
      this.#retry(() => void this.#refreshContexts());
    }
    this.notify();
  }

  async #sendPerception(watched: WatchedScope): Promise<void> {
    const { cognition, limits } = this.#parts;
    const ids = [...watched.contexts].slice(0, limits.maxContextsPerUpdate);
    const contexts: ActiveContext[] = [];
    for (const id of ids) {
      const context = await cognition.context(id);
      if (context === null) this.scheduler.closeContext(id);
      else contexts.push(context);
    }
    if (watched.contexts.size === 0) return;
    const startedAt = performance.now();
    const world = await cognition.world(watched);
    const isUnchanged = watched.sentHash === world.hash;
    const memories = isUnchanged ? [] : await cognition.memories(watched.tenantId);
    this.scheduler.recordReadTime(watched, performance.now() - startedAt);
    if (isUnchanged) return;
    await this.#syncCapabilities(capabilitySetsOf(world.devices));
    const contextsNotRead = Math.max(0, watched.contexts.size - contexts.length);
    this.scheduler.markSent(watched, world.hash);
    const { tenantId, homeId, deviceId } = watched;
    const value = buildPerceptionUpdate({
      tenantId,
      homeId,
      deviceId,
      world,
      contexts,
      contextsNotRead,
      memories,
    });
    await this.#write({ case: 'perceptionUpdate', value });
  }

  async #sendIdlePerception(scope: PerceptionScope): Promise<void> {
    const startedAt = performance.now();
    const world = await this.#parts.cognition.world(scope);
    this.scheduler.recordIdleReadTime(performance.now() - startedAt);
    if (this.#idleWorldHashes.get(scope.homeId as Uuid) === world.hash) return;
    this.#idleWorldHashes.set(scope.homeId as Uuid, world.hash);
    const value = buildPerceptionUpdate({ ...scope, world, contexts: [], contextsNotRead: 0, memories: [] });
    await this.#write({ case: 'perceptionUpdate', value });
  }

  /** Sends the sets that were not sent on this stream yet. */
  async #syncCapabilities(sets: Iterable<CapabilitySet>, perEvent = SETS_PER_EVENT): Promise<void> {
    if (this.#syncedSets.size > MAX_SYNCED_SETS) this.#syncedSets.clear();
    const unsent = [...sets].filter(({ capabilitySetId }) => !this.#syncedSets.has(capabilitySetId));
    for (let at = 0; at < unsent.length; at += perEvent) {
      const chunk = unsent.slice(at, at + perEvent);
      for (const { capabilitySetId } of chunk) this.#syncedSets.add(capabilitySetId);
      await this.#write({ case: 'capabilitySync', value: { sets: chunk } });
    }
  }

  async #write(queued: OutgoingEvent): Promise<void> {
    if (this.#stopped) return;
    const { call, clock, onSent } = this.#parts;
    const event = typeof queued === 'function' ? await queued() : queued;
    this.#eventId += 1n;
    const sentAt = timestampFromMs(clock.now());
    if (!(await call.write(create(RuntimeEventSchema, { eventId: this.#eventId, sentAt, event })))) this.stop();
    onSent(event.case ?? 'none');
  }

  #waitForWork(ms: Milliseconds | null): Promise<void> {
    return new Promise((resolve) => {
      if (this.#stopped) return resolve();
      const timer = ms === null ? null : setTimeout(() => this.notify(), ms);
      timer?.unref();
      this.#wake = () => {
        if (timer !== null) clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
    });
  }
}

function* capabilitySetsOf(devices: readonly WorldDevice[]): Generator<CapabilitySet> {
  const seen = new Set<string>();
  for (const { manifest } of devices) {
    if (manifest === null) continue;
    const set = capabilitySetOf(manifest);
    if (!seen.has(set.capabilitySetId)) yield set;
    seen.add(set.capabilitySetId);
  }
}

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
import type { Call } from './call.ts';
import { capabilitySetOf, registryCapabilitySets } from './capability-sets.ts';
import { buildPerceptionUpdate } from './perception.ts';
import type { SidecarLimits } from './sidecar-limits.ts';
import { type Scope, type WatchedScope, WorldUpdateScheduler } from './world-update-scheduler.ts';

type EventPayload = NonNullable<MessageInitShape<typeof RuntimeEventSchema>['event']>;
/** What is written when its turn comes; what it says of the world may be looked up then. */
export type OutgoingEvent = EventPayload | (() => Promise<EventPayload>);

export interface EventSenderParts {
  call: Call;
  cognition: Pick<Cognition, 'active' | 'context' | 'world' | 'memories'>;
  clock: Clock;
  limits: SidecarLimits;
  log: Log;
  /** An event of that kind was written. */
  onSent(kind: string): void;
  /** Too much waits: the stream is to end, and everything is told anew on the next one. */
  onOverflow(): void;
}

/** Sets that the sidecar was told of; told again where there are more than these. */
const MAX_SYNCED_SETS = 10_000;
/** In one event: a manifest of one's own has at most 256 KiB. */
const SETS_PER_EVENT = 4;
/** Sets that wait to be told of: one may take some hundred KiB. */
const MAX_PENDING_SETS = 200;
/** Events in a row before a part of the world gets its turn. */
const MAX_CONSECUTIVE_EVENTS = 50;
/** After something could not be read. */
const RETRY_MS: Milliseconds = 1_000;
/** Between two warnings that something could not be told. */
const WARN_MS: Milliseconds = 60_000;
/**
 * All that is told on one stream: first what devices can do, then what waits for the sidecar with the world around it, then
 * what happens. One event is on its way at a time, so that a sidecar that does not read holds up nothing but itself: what
 * waits meanwhile is bounded, and beyond that the stream ends.
 */
export class EventSender {
  readonly scheduler: WorldUpdateScheduler;
  private readonly parts: EventSenderParts;
  private readonly syncedSets = new Set<string>();
  /** Of homes about which there is nothing to think. */
  private readonly idleWorldHashes: LRUCache<Uuid, string>;
  private readonly openedContexts = new Set<Uuid>();
  /** Contexts that there was no room for wait too. */
  private hasContextsLeftOut = false;
  /** By their ids. */
  private readonly pendingSets = new Map<string, CapabilitySet>();
  private queue: OutgoingEvent[] = [];
  private eventId = 0n;
  private stopped = false;
  /** No warning before. */
  private nextWarningAt: Milliseconds = 0;
  private wake: (() => void) | null = null;

  constructor(parts: EventSenderParts) {
    this.parts = parts;
    this.scheduler = new WorldUpdateScheduler(parts.limits);
    this.idleWorldHashes = new LRUCache({ max: parts.limits.maxIdleHomes });
  }

  sizes(): CollectionSizes {
    return {
      ...this.scheduler.sizes(),
      sidecar_sets_told: this.syncedSets.size,
      sidecar_sets_learnt: this.pendingSets.size,
      sidecar_contexts_opened: this.openedContexts.size,
      sidecar_world_hashes: this.idleWorldHashes.size,
      sidecar_events: this.queue.length,
    };
  }

  /** Ends when the stream does. */
  async run(): Promise<void> {
    await this.syncCapabilities(registryCapabilitySets(), Number.POSITIVE_INFINITY);
    await this.refreshContexts();
    for (let streak = 0; !this.stopped; ) {
      const told = await this.sendNext(streak).catch((error: unknown) => this.logFailure(error, 'an event'));
      streak = told ? streak + 1 : 0;
    }
  }

  /** One thing that cannot be told, or not now, keeps nothing else from being told. */
  private logFailure(error: unknown, what: string): false {
    const now = performance.now();
    if (this.stopped || now < this.nextWarningAt) return false;
    this.nextWarningAt = now + WARN_MS;
    this.parts.log.warn({ err: error, what }, 'the sidecar could not be told');
    return false;
  }

  private retry(act: () => void): void {
    setTimeout(() => {
      if (!this.stopped) act();
    }, RETRY_MS).unref();
  }

  send(event: OutgoingEvent): void {
    if (this.stopped) return;
    this.queue.push(event);
    if (this.queue.length > this.parts.limits.maxQueuedEvents) this.parts.onOverflow();
    else this.notify();
  }

  /** It waits for the sidecar. What it is about is read in its turn. */
  openContext(contextId: Uuid): void {
    if (this.stopped) return;
    if (this.scheduler.contextCount + this.openedContexts.size >= this.parts.limits.maxContexts)
      this.hasContextsLeftOut = true;
    else this.openedContexts.add(contextId);
    this.notify();
  }

  /** It does not wait for the sidecar any more; others may have room now. */
  closeContext(contextId: Uuid): void {
    this.scheduler.closeContext(contextId);
    this.notify();
  }

  /** The device's manifest is another now. One of very many at once is told of with the device that has it. */
  enqueueManifest(manifest: Manifest): void {
    if (this.stopped || this.pendingSets.size >= MAX_PENDING_SETS) return;
    const set = capabilitySetOf(manifest);
    this.pendingSets.set(set.capabilitySetId, set);
    this.notify();
  }

  /** Looks again whether there is something to tell. */
  notify(): void {
    this.wake?.();
  }

  stop(): void {
    this.stopped = true;
    this.queue = [];
    this.notify();
  }

  /** True where it was something that happened. */
  private async sendNext(streak: number): Promise<boolean> {
    if (this.pendingSets.size > 0) {
      const news = [...this.pendingSets.values()];
      this.pendingSets.clear();
      await this.syncCapabilities(news);
    }
    const { queue, scheduler } = this;
    if (queue.length > 0 && streak < MAX_CONSECUTIVE_EVENTS) {
      await this.write(queue.shift() as OutgoingEvent);
      return true;
    }
    for (const id of [...this.openedContexts]) await this.loadContext(id);
    if (this.hasContextsLeftOut && this.hasCapacity) await this.refreshContexts();
    const now = performance.now();
    const watched = scheduler.takeNext(now);
    if (watched !== null) {
      await this.sendPerception(watched).catch((error: unknown) => {
        this.logFailure(error, 'a part of the world');
        scheduler.reschedule(watched, performance.now());
      });
    } else if (queue.length + this.pendingSets.size + this.openedContexts.size === 0) {
      const home = scheduler.takeNextIdleHome(now);
      if (home !== null) await this.sendIdlePerception(home);
      else await this.waitForWork(scheduler.delayUntilNext(now));
    }
    return false;
  }

  private async loadContext(contextId: Uuid): Promise<void> {
    this.openedContexts.delete(contextId);
    try {
      const context = await this.parts.cognition.context(contextId);
      if (context !== null) this.scheduler.openContext(context);
    } catch (error) {
      this.logFailure(error, 'a context');
      this.retry(() => this.openContext(contextId));
    }
  }

  /** All that waits already. */
  private async loadActiveContexts(): Promise<void> {
    const { scheduler } = this;
    this.hasContextsLeftOut = false;
    for await (const context of this.parts.cognition.active()) {
      if (this.stopped) return;
      if (scheduler.hasContext(context.id)) continue;
      if (scheduler.contextCount >= this.parts.limits.maxContexts) {
        this.hasContextsLeftOut = true;
        return;
      }
      scheduler.openContext(context);
    }
  }

  /** There is room enough again that it is worth the reading. */
  private get hasCapacity(): boolean {
    return this.scheduler.contextCount + this.openedContexts.size <= this.parts.limits.maxContexts * 0.9;
  }

  private async refreshContexts(): Promise<void> {
    try {
      await this.loadActiveContexts();
    } catch (error) {
      this.logFailure(error, 'what waits');
      this.retry(() => void this.refreshContexts());
    }
    this.notify();
  }

  private async sendPerception(watched: WatchedScope): Promise<void> {
    const { cognition, limits } = this.parts;
    const ids = [...watched.contexts].slice(0, limits.maxContextsPerUpdate);
    const contexts: ActiveContext[] = [];
    for (const id of ids) {
      const context = await cognition.context(id);
      if (context === null) this.scheduler.closeContext(id);
      else contexts.push(context);
    }
    if (watched.contexts.size === 0) return;
    const from = performance.now();
    const world = await cognition.world(watched);
    this.scheduler.recordReadTime(watched, performance.now() - from);
    if (watched.sentHash === world.hash) return;
    const memories = await cognition.memories(watched.tenantId);
    await this.syncCapabilities(capabilitySetsOf(world.devices));
    const waiting = Math.max(0, watched.contexts.size - contexts.length);
    this.scheduler.markSent(watched, world.hash);
    const { tenantId, homeId, deviceId } = watched;
    const value = buildPerceptionUpdate({
      tenantId,
      homeId,
      deviceId,
      world,
      contexts,
      contextsNotRead: waiting,
      memories,
    });
    await this.write({ case: 'perceptionUpdate', value });
  }

  private async sendIdlePerception(part: Scope): Promise<void> {
    const from = performance.now();
    const world = await this.parts.cognition.world(part);
    this.scheduler.recordIdleReadTime(performance.now() - from);
    if (this.idleWorldHashes.get(part.homeId as Uuid) === world.hash) return;
    this.idleWorldHashes.set(part.homeId as Uuid, world.hash);
    const value = buildPerceptionUpdate({ ...part, world, contexts: [], contextsNotRead: 0, memories: [] });
    await this.write({ case: 'perceptionUpdate', value });
  }

  /** Tells of sets that the sidecar does not know. */
  private async syncCapabilities(sets: Iterable<CapabilitySet>, atOnce = SETS_PER_EVENT): Promise<void> {
    if (this.syncedSets.size > MAX_SYNCED_SETS) this.syncedSets.clear();
    const news = [...sets].filter(({ capabilitySetId }) => !this.syncedSets.has(capabilitySetId));
    for (let at = 0; at < news.length; at += atOnce) {
      const some = news.slice(at, at + atOnce);
      for (const { capabilitySetId } of some) this.syncedSets.add(capabilitySetId);
      await this.write({ case: 'capabilitySync', value: { sets: some } });
    }
  }

  private async write(given: OutgoingEvent): Promise<void> {
    if (this.stopped) return;
    const { call, clock, onSent } = this.parts;
    const event = typeof given === 'function' ? await given() : given;
    this.eventId += 1n;
    const sentAt = timestampFromMs(clock.now());
    if (!(await call.write(create(RuntimeEventSchema, { eventId: this.eventId, sentAt, event })))) this.stop();
    onSent(event.case ?? 'none');
  }

  private waitForWork(ms: Milliseconds | null): Promise<void> {
    return new Promise((resolve) => {
      if (this.stopped) return resolve();
      const timer = ms === null ? null : setTimeout(() => this.notify(), ms);
      timer?.unref();
      this.wake = () => {
        if (timer !== null) clearTimeout(timer);
        this.wake = null;
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

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
import { Attention, type Part, type Watched } from './attention.ts';
import type { Call } from './call.ts';
import type { SidecarLimits } from './limits.ts';
import { perception } from './showing.ts';
import { capabilitySet, registrySets } from './tools.ts';

type EventShape = NonNullable<MessageInitShape<typeof RuntimeEventSchema>['event']>;
/** What is written when its turn comes; what it says of the world may be looked up then. */
export type Event = EventShape | (() => Promise<EventShape>);

export interface TellingParts {
  call: Call;
  cognition: Pick<Cognition, 'active' | 'context' | 'world' | 'memories'>;
  clock: Clock;
  limits: SidecarLimits;
  log: Log;
  /** An event of that kind was written. */
  wrote(kind: string): void;
  /** Too much waits: the stream is to end, and everything is told anew on the next one. */
  flooded(): void;
}

/** Sets that the sidecar was told of; told again where there are more than these. */
const SETS = 10_000;
/** In one event: a manifest of one's own has at most 256 KiB. */
const SETS_AT_ONCE = 4;
/** Sets that wait to be told of: one may take some hundred KiB. */
const LEARNT = 200;
/** Events in a row before a part of the world gets its turn. */
const STREAK = 50;
/** After something could not be read. */
const RETRY_MS: Milliseconds = 1_000;
/** Between two warnings that something could not be told. */
const WARN_MS: Milliseconds = 60_000;
/**
 * All that is told on one stream: first what devices can do, then what waits for the sidecar with the world around it, then
 * what happens. One event is on its way at a time, so that a sidecar that does not read holds up nothing but itself: what
 * waits meanwhile is bounded, and beyond that the stream ends.
 */
export class Telling {
  readonly attention: Attention;
  private readonly parts: TellingParts;
  private readonly told = new Set<string>();
  /** Of homes about which there is nothing to think. */
  private readonly hashes: LRUCache<Uuid, string>;
  private readonly opened = new Set<Uuid>();
  /** Contexts that there was no room for wait too. */
  private leftOut = false;
  /** By their ids. */
  private readonly learnt = new Map<string, CapabilitySet>();
  private queue: Event[] = [];
  private eventId = 0n;
  private over = false;
  /** No warning before. */
  private quietUntil: Milliseconds = 0;
  private wake: (() => void) | null = null;

  constructor(parts: TellingParts) {
    this.parts = parts;
    this.attention = new Attention(parts.limits);
    this.hashes = new LRUCache({ max: parts.limits.quietHomes });
  }

  sizes(): CollectionSizes {
    return {
      ...this.attention.sizes(),
      sidecar_sets_told: this.told.size,
      sidecar_sets_learnt: this.learnt.size,
      sidecar_contexts_opened: this.opened.size,
      sidecar_world_hashes: this.hashes.size,
      sidecar_events: this.queue.length,
    };
  }

  /** Ends when the stream does. */
  async run(): Promise<void> {
    await this.sync(registrySets(), Number.POSITIVE_INFINITY);
    await this.begin();
    for (let streak = 0; !this.over; ) {
      const told = await this.one(streak).catch((error: unknown) => this.failed(error, 'an event'));
      streak = told ? streak + 1 : 0;
    }
  }

  /** One thing that cannot be told, or not now, keeps nothing else from being told. */
  private failed(error: unknown, what: string): false {
    const now = performance.now();
    if (this.over || now < this.quietUntil) return false;
    this.quietUntil = now + WARN_MS;
    this.parts.log.warn({ err: error, what }, 'the sidecar could not be told');
    return false;
  }

  private retry(act: () => void): void {
    setTimeout(() => {
      if (!this.over) act();
    }, RETRY_MS).unref();
  }

  say(event: Event): void {
    if (this.over) return;
    this.queue.push(event);
    if (this.queue.length > this.parts.limits.queued) this.parts.flooded();
    else this.stir();
  }

  /** It waits for the sidecar. What it is about is read in its turn. */
  open(contextId: Uuid): void {
    if (this.over) return;
    if (this.attention.size + this.opened.size >= this.parts.limits.allContexts) this.leftOut = true;
    else this.opened.add(contextId);
    this.stir();
  }

  /** It does not wait for the sidecar any more; others may have room now. */
  close(contextId: Uuid): void {
    this.attention.close(contextId);
    this.stir();
  }

  /** The device's manifest is another now. One of very many at once is told of with the device that has it. */
  learn(manifest: Manifest): void {
    if (this.over || this.learnt.size >= LEARNT) return;
    const set = capabilitySet(manifest);
    this.learnt.set(set.capabilitySetId, set);
    this.stir();
  }

  /** Looks again whether there is something to tell. */
  stir(): void {
    this.wake?.();
  }

  end(): void {
    this.over = true;
    this.queue = [];
    this.stir();
  }

  /** True where it was something that happened. */
  private async one(streak: number): Promise<boolean> {
    if (this.learnt.size > 0) {
      const news = [...this.learnt.values()];
      this.learnt.clear();
      await this.sync(news);
    }
    const { queue, attention } = this;
    if (queue.length > 0 && streak < STREAK) {
      await this.write(queue.shift() as Event);
      return true;
    }
    for (const id of [...this.opened]) await this.look(id);
    if (this.leftOut && this.hasRoom) await this.begin();
    const now = performance.now();
    const watched = attention.next(now);
    if (watched !== null) {
      await this.show(watched).catch((error: unknown) => {
        this.failed(error, 'a part of the world');
        attention.later(watched, performance.now());
      });
    } else if (queue.length + this.learnt.size + this.opened.size === 0) {
      const home = attention.nextQuiet(now);
      if (home !== null) await this.showQuiet(home);
      else await this.rest(attention.pause(now));
    }
    return false;
  }

  private async look(contextId: Uuid): Promise<void> {
    this.opened.delete(contextId);
    try {
      const context = await this.parts.cognition.context(contextId);
      if (context !== null) this.attention.open(context);
    } catch (error) {
      this.failed(error, 'a context');
      this.retry(() => this.open(contextId));
    }
  }

  /** All that waits already. */
  private async find(): Promise<void> {
    const { attention } = this;
    this.leftOut = false;
    for await (const context of this.parts.cognition.active()) {
      if (this.over) return;
      if (attention.knows(context.id)) continue;
      if (attention.size >= this.parts.limits.allContexts) {
        this.leftOut = true;
        return;
      }
      attention.open(context);
    }
  }

  /** There is room enough again that it is worth the reading. */
  private get hasRoom(): boolean {
    return this.attention.size + this.opened.size <= this.parts.limits.allContexts * 0.9;
  }

  private async begin(): Promise<void> {
    try {
      await this.find();
    } catch (error) {
      this.failed(error, 'what waits');
      this.retry(() => void this.begin());
    }
    this.stir();
  }

  private async show(watched: Watched): Promise<void> {
    const { cognition, limits } = this.parts;
    const ids = [...watched.contexts].slice(0, limits.contexts);
    const contexts: ActiveContext[] = [];
    for (const id of ids) {
      const context = await cognition.context(id);
      if (context === null) this.attention.close(id);
      else contexts.push(context);
    }
    if (watched.contexts.size === 0) return;
    const from = performance.now();
    const world = await cognition.world(watched);
    this.attention.took(watched, performance.now() - from);
    if (watched.told === world.hash) return;
    const memories = await cognition.memories(watched.tenantId);
    await this.sync(setsOf(world.devices));
    const waiting = Math.max(0, watched.contexts.size - contexts.length);
    this.attention.tells(watched, world.hash);
    const { tenantId, homeId, deviceId } = watched;
    const value = perception({ tenantId, homeId, deviceId, world, contexts, waiting, memories });
    await this.write({ case: 'perceptionUpdate', value });
  }

  private async showQuiet(part: Part): Promise<void> {
    const from = performance.now();
    const world = await this.parts.cognition.world(part);
    this.attention.tookQuiet(performance.now() - from);
    if (this.hashes.get(part.homeId as Uuid) === world.hash) return;
    this.hashes.set(part.homeId as Uuid, world.hash);
    const value = perception({ ...part, world, contexts: [], waiting: 0, memories: [] });
    await this.write({ case: 'perceptionUpdate', value });
  }

  /** Tells of sets that the sidecar does not know. */
  private async sync(sets: Iterable<CapabilitySet>, atOnce = SETS_AT_ONCE): Promise<void> {
    if (this.told.size > SETS) this.told.clear();
    const news = [...sets].filter(({ capabilitySetId }) => !this.told.has(capabilitySetId));
    for (let at = 0; at < news.length; at += atOnce) {
      const some = news.slice(at, at + atOnce);
      for (const { capabilitySetId } of some) this.told.add(capabilitySetId);
      await this.write({ case: 'capabilitySync', value: { sets: some } });
    }
  }

  private async write(given: Event): Promise<void> {
    if (this.over) return;
    const { call, clock, wrote } = this.parts;
    const event = typeof given === 'function' ? await given() : given;
    this.eventId += 1n;
    const sentAt = timestampFromMs(clock.now());
    if (!(await call.write(create(RuntimeEventSchema, { eventId: this.eventId, sentAt, event })))) this.end();
    wrote(event.case ?? 'none');
  }

  private rest(ms: Milliseconds | null): Promise<void> {
    return new Promise((resolve) => {
      if (this.over) return resolve();
      const timer = ms === null ? null : setTimeout(() => this.stir(), ms);
      timer?.unref();
      this.wake = () => {
        if (timer !== null) clearTimeout(timer);
        this.wake = null;
        resolve();
      };
    });
  }
}

function* setsOf(devices: readonly WorldDevice[]): Generator<CapabilitySet> {
  const seen = new Set<string>();
  for (const { manifest } of devices) {
    if (manifest === null) continue;
    const set = capabilitySet(manifest);
    if (!seen.has(set.capabilitySetId)) yield set;
    seen.add(set.capabilitySetId);
  }
}

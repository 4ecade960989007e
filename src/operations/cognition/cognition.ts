import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { ContextChange } from '../../domain/cognition.ts';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { Memory } from '../../domain/memory.ts';
import type { JsonObject, Milliseconds, Uuid } from '../../domain/values.ts';
import type { Flags } from '../../services/flags.ts';
import { SuspensionTimers } from '../../services/suspension-timers.ts';
import { CommitUnknown, StoreUnavailable } from '../../store/contract.ts';
import {
  activeContextOf,
  activeContexts,
  cognitionRefusal,
  findContext,
  tenantOfContext,
  withContextLock,
} from './contexts.ts';
import type { ActiveContext, Cognition, World, WorldQuery } from './contract.ts';
import { memoriesOf } from './memory-authority.ts';
import { SidecarHandlers, type SidecarServices } from './sidecar-handlers.ts';
import { makeWorldReader, type WorldReader } from './world.ts';

/** Pause before the end of a suspension is tried again. */
const WAKE_RETRY_MS: Milliseconds = 5_000;
/** Between two attempts to read the contexts that the sidecar is notified of. */
const READ_RETRY: BackoffLimits = { firstMs: 250, maxMs: 10_000 };

/** The cognitive layer, one per process: from its creation `services.sidecar` is notified of changes of contexts. */
export class CognitiveLayer implements Cognition, SizeReporter {
  readonly #services: SidecarServices;
  readonly #worlds: WorldReader;
  readonly #wakeTimers: SuspensionTimers;
  readonly #handlers: SidecarHandlers;
  readonly #unsubscribes: readonly (() => void)[];
  #closed = false;

  constructor(services: SidecarServices, flags: Pick<Flags, 'subscribe'>) {
    this.#services = services;
    this.#worlds = makeWorldReader(services);
    this.#wakeTimers = new SuspensionTimers(services.clock, (id) => void this.#wakeOrRetry(id));
    this.#handlers = new SidecarHandlers(services, this.#wakeTimers);
    this.#unsubscribes = this.#subscribe(flags);
  }

  propose: Cognition['propose'] = (contextId, node, memoryIds) => this.#handlers.propose(contextId, node, memoryIds);
  suspend: Cognition['suspend'] = (contextId, request) => this.#handlers.suspend(contextId, request);
  complete: Cognition['complete'] = (contextId, request) => this.#handlers.complete(contextId, request);
  fail: Cognition['fail'] = (contextId, request) => this.#handlers.fail(contextId, request);

  async *active(tenantId?: Uuid): AsyncIterable<ActiveContext> {
    const services = this.#services;
    if (tenantId !== undefined && (await cognitionRefusal(services, tenantId)) !== null) return;
    for await (const context of activeContexts(services, tenantId)) {
      if (services.flags().cognition_disabled) return;
      yield this.#withCurrentPhase(context);
    }
  }

  async context(id: Uuid): Promise<ActiveContext | null> {
    const found = await findContext(this.#services, id);
    if (found === null || (await cognitionRefusal(this.#services, tenantOfContext(found))) !== null) return null;
    const active = activeContextOf(this.#services, found);
    return active && this.#withCurrentPhase(active);
  }

  world(query: WorldQuery): Promise<World> {
    return this.#worlds.load(query);
  }

  worldOf({ tenantId, homeId, deviceId, kind }: ActiveContext): Promise<World> {
    return this.#worlds.load({ tenantId, homeId, deviceId: kind === 'device' ? deviceId : null });
  }

  stateOf(tenantId: Uuid, deviceId: Uuid): Promise<JsonObject | null> {
    return this.#worlds.stateOf(tenantId, deviceId);
  }

  memories(tenantId: Uuid): Promise<readonly Memory[]> {
    return memoriesOf(this.#services, tenantId);
  }

  sizes(): CollectionSizes {
    return this.#wakeTimers.sizes();
  }

  /**
   * Sends the contexts of these tenants to the sidecar: another node has served them until now, or was about to.
   * Repeated while the store does not answer.
   */
  openTenants(matches: (tenantId: Uuid) => boolean): Promise<void> {
    return this.#untilAnswered(async () => {
      if (!this.#services.sidecar.connected()) return;
      for await (const context of activeContexts(this.#services)) {
        if (matches(context.tenantId)) this.#notify({ ...this.#changeBase(context), type: 'opened' });
      }
    });
  }

  /** The active contexts of these tenants, to interrupt them when another node serves the tenants. */
  async contextsOf(matches: (tenantId: Uuid) => boolean): Promise<ActiveContext[]> {
    const contexts: ActiveContext[] = [];
    if (!this.#services.sidecar.connected()) return contexts;
    for await (const context of activeContexts(this.#services)) if (matches(context.tenantId)) contexts.push(context);
    return contexts;
  }

  /** Interrupts contexts that are sent to the sidecar of another node. */
  interrupt(contexts: readonly ActiveContext[]): void {
    const detail = 'The tenant is served by another node.';
    for (const context of contexts) {
      this.#wakeTimers.clear(context.id);
      this.#services.sidecar.notify({
        ...{ ...this.#changeBase(context), type: 'interrupted' as const, reason: 'SUSPENDED' as const, detail },
      });
    }
  }

  close(): void {
    this.#closed = true;
    this.#wakeTimers.close();
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
  }

  #subscribe(flags: Pick<Flags, 'subscribe'>): (() => void)[] {
    const { actors } = this.#services;
    return [
      flags.subscribe((flag, state) => {
        if (flag === 'cognition_disabled') void this.#notifyOrLog(state, 'The cognitive layer is disabled.');
      }),
      actors.subscribe('context.changed', ({ change }) => this.#notify(change)),
      actors.subscribe('tenant.changed', ({ tenantId, suspended }) => {
        void this.#notifyOrLog(suspended, 'The tenant is suspended.', tenantId);
      }),
    ];
  }

  /** Repeats work that may be done several times until the store answers, or the layer is closed. */
  async #untilAnswered(work: () => Promise<void>): Promise<void> {
    for (let failures = 1; !this.#closed; failures++) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        if (this.#closed) return;
        this.#services.log.warn({ err: error }, 'contexts for the sidecar not read; retrying');
      }
      await pause(backoffDelay(failures, READ_RETRY), undefined, { ref: false });
    }
  }

  async #notifyOrLog(...change: [stopped: boolean, detail: string, tenantId?: Uuid]): Promise<void> {
    try {
      await this.#untilAnswered(() => this.#notifyAll(...change));
    } catch (error) {
      if (!this.#closed) this.#services.log.warn({ err: error }, 'sidecar event dropped');
    }
  }

  /** Checked in memory only: a tenant that is suspended while it has active contexts is loaded. */
  #isStopped(tenantId: Uuid): boolean {
    const tenant = this.#services.actors.peek({ kind: 'tenant', id: tenantId });
    return this.#services.flags().cognition_disabled || tenant?.snapshot.value === 'suspended';
  }

  /** Skips contexts that are stopped by a flag or a suspension: `opened` is sent again when that ends. */
  #notify(change: ContextChange): void {
    if (change.type === 'opened' && this.#isStopped(change.tenantId)) return;
    this.#services.sidecar.notify(change);
  }

  /** Notifies the sidecar that contexts were stopped, or can continue. */
  async #notifyAll(stopped: boolean, detail: string, tenantId?: Uuid): Promise<void> {
    const { sidecar } = this.#services;
    if (!sidecar.connected()) return;
    for await (const context of activeContexts(this.#services, tenantId)) {
      if (this.#closed) return;
      if (!stopped) this.#notify({ ...this.#changeBase(context), type: 'opened' });
      // If it is no longer stopped, `opened` has been sent or is about to be.
      else if (this.#isStopped(context.tenantId))
        sidecar.notify({ ...this.#changeBase(context), type: 'interrupted', reason: 'SUSPENDED', detail });
    }
  }

  /** Nothing else ends a suspension, so it is tried until the store answers. */
  async #wakeOrRetry(id: Uuid): Promise<void> {
    const { clock, log } = this.#services;
    try {
      await this.#wake(id);
    } catch (error) {
      if (this.#closed) return;
      const isTransient = error instanceof StoreUnavailable || error instanceof CommitUnknown;
      log.warn({ err: error, context: id }, `suspension of a context not ended${isTransient ? '; retrying' : ''}`);
      // The sidecar may have suspended it again.
      if (isTransient && !this.#wakeTimers.has(id)) this.#wakeTimers.set(id, clock.now() + WAKE_RETRY_MS);
    }
  }

  /**
   * Does nothing if the sidecar has suspended it again, or if the shard of the tenant leaves: `openTenants` sends the context
   * again, here or at the new owner.
   */
  #wake(id: Uuid): Promise<void> {
    const { actors, store } = this.#services;
    return withContextLock(this.#services, id, async () => {
      if (this.#wakeTimers.has(id)) return;
      const proposal = await store.proposals.find(id);
      const leave = proposal && actors.enter(proposal.tenantId);
      if (leave === null) return;
      try {
        const woken = await store.proposals.change(id, { phase: 'thinking' });
        if (woken !== null) this.#notify({ ...this.#changeBase(woken), type: 'opened' });
      } finally {
        leave();
      }
    });
  }

  #changeBase({ id, tenantId, homeId }: Pick<ActiveContext, 'id' | 'tenantId' | 'homeId'>) {
    return { contextId: id, tenantId, homeId, at: this.#services.clock.now() };
  }

  /** A suspension without a wake timer, as after a restart, counts as ended. */
  #withCurrentPhase(context: ActiveContext): ActiveContext {
    return context.kind === 'observation' && context.phase === 'suspended' && !this.#wakeTimers.has(context.id)
      ? { ...context, phase: 'thinking' }
      : context;
  }
}

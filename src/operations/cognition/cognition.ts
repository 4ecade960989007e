import type { ContextChange } from '../../domain/cognition.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Flags } from '../../services/flags.ts';
import { activeContextOf, activeContexts, cognitionRefusal, findContext, tenantOfContext } from './contexts.ts';
import type { ActiveContext, Cognition } from './contract.ts';
import { SidecarHandlers, type SidecarServices } from './sidecar-handlers.ts';
import { WakeTimers } from './wake-timers.ts';
import { makeWorldReader, memoriesOf } from './world.ts';

/** Opens the cognitive layer, once per process: from then on `services.sidecar` is notified of changes of contexts. */
export function openCognition(
  services: SidecarServices,
  flags: Pick<Flags, 'subscribe'>,
): Cognition & SizeReporter & { close(): void } {
  const { actors, clock, store, log } = services;
  const worlds = makeWorldReader(services);
  const wakeTimers = new WakeTimers(clock, (id) => void logged(wake(id)));
  const handlers = new SidecarHandlers(services, wakeTimers);
  let closed = false;

  const logged = (work: Promise<unknown>): Promise<unknown> =>
    work.catch((error: unknown) => {
      if (!closed) log.warn({ err: error }, 'sidecar event dropped');
    });

  /** Checked in memory only: a tenant that is suspended while it has active contexts is loaded. */
  const isStopped = (tenantId: Uuid): boolean =>
    services.flags().cognition_disabled ||
    actors.peek({ kind: 'tenant', id: tenantId })?.snapshot.value === 'suspended';

  /** Skips contexts that are stopped by a flag or a suspension: `opened` is sent again when that ends. */
  function notify(change: ContextChange): void {
    if (change.type === 'opened' && isStopped(change.tenantId)) return;
    services.sidecar.notify(change);
  }

  const changeBase = ({ id, tenantId, homeId }: Pick<ActiveContext, 'id' | 'tenantId' | 'homeId'>) => ({
    ...{ contextId: id, tenantId, homeId, at: clock.now() },
  });

  /** A suspension without a wake timer, as after a restart, counts as ended. */
  const withCurrentPhase = (context: ActiveContext): ActiveContext =>
    context.kind === 'observation' && context.phase === 'suspended' && !wakeTimers.has(context.id)
      ? { ...context, phase: 'thinking' }
      : context;

  async function wake(id: Uuid): Promise<void> {
    const woken = await store.proposals.change(id, { phase: 'thinking' });
    if (woken !== null) notify({ ...changeBase(woken), type: 'opened' });
  }

  /** Notifies the sidecar that contexts were stopped, or can continue. */
  async function notifyAll(stopped: boolean, detail: string, tenantId?: Uuid): Promise<void> {
    if (!services.sidecar.connected()) return;
    for await (const context of activeContexts(services, tenantId)) {
      if (closed) return;
      if (!stopped) notify({ ...changeBase(context), type: 'opened' });
      // If it is no longer stopped, `opened` has been sent or is about to be.
      else if (isStopped(context.tenantId))
        services.sidecar.notify({ ...changeBase(context), type: 'interrupted', reason: 'SUSPENDED', detail });
    }
  }

  const unsubscribes = [
    actors.subscribe('context.changed', ({ change }) => notify(change)),
    actors.subscribe('tenant.changed', ({ tenantId, suspended }) => {
      void logged(notifyAll(suspended, 'The tenant is suspended.', tenantId));
    }),
  ];
  flags.subscribe((flag, state) => {
    if (flag === 'cognition_disabled') void logged(notifyAll(state, 'The cognitive layer is disabled.'));
  });

  return {
    async *active(tenantId) {
      if (tenantId !== undefined && (await cognitionRefusal(services, tenantId)) !== null) return;
      for await (const context of activeContexts(services, tenantId)) {
        if (services.flags().cognition_disabled) return;
        yield withCurrentPhase(context);
      }
    },

    async context(id) {
      const found = await findContext(services, id);
      if (found === null || (await cognitionRefusal(services, tenantOfContext(found))) !== null) return null;
      const active = activeContextOf(services, found);
      return active && withCurrentPhase(active);
    },

    world: worlds.load,
    worldOf: ({ tenantId, homeId, deviceId, kind }) =>
      worlds.load({ tenantId, homeId, deviceId: kind === 'device' ? deviceId : null }),
    stateOf: worlds.stateOf,
    memories: (tenantId) => memoriesOf(services, tenantId),
    propose: (contextId, node) => handlers.propose(contextId, node),
    suspend: (contextId, request) => handlers.suspend(contextId, request),
    complete: (contextId, request) => handlers.complete(contextId, request),
    fail: (contextId, request) => handlers.fail(contextId, request),

    sizes: () => ({ ...worlds.sizes(), ...wakeTimers.sizes() }),

    close() {
      closed = true;
      wakeTimers.close();
      for (const unsubscribe of unsubscribes) unsubscribe();
    },
  };
}

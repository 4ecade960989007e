import type { ContextChange } from '../../domain/cognition.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Flags } from '../../services/flags.ts';
import type { Services } from '../operation.ts';
import { activeContextOf, activeContexts, cognitionRefusal, findContext, tenantOfContext } from './contexts.ts';
import type { ActiveContext, Cognition } from './contract.ts';
import { makeSidecarHandlers } from './sidecar-handlers.ts';
import { WakeTimers } from './wake-timers.ts';
import { makeWorldReader, memoriesOf } from './world.ts';

/** One for the process; from now on `services.sidecar` is told what becomes of contexts. */
export function openCognition(
  services: Services,
  flags: Pick<Flags, 'subscribe'>,
): Cognition & SizeReporter & { close(): void } {
  const { actors, clock, store, log } = services;
  const worlds = makeWorldReader(services);
  const alarms = new WakeTimers(clock, (id) => void quietly(wake(id)));
  let closed = false;

  const quietly = (work: Promise<unknown>): Promise<unknown> =>
    work.catch((error: unknown) => {
      if (!closed) log.warn({ err: error }, 'the sidecar is told less than there is');
    });

  /** As far as memory tells: whoever is suspended while somebody thinks for them is in it. */
  const isBarred = (tenantId: Uuid): boolean =>
    services.flags().cognition_disabled ||
    actors.peek({ kind: 'tenant', id: tenantId })?.snapshot.value === 'suspended';

  /** Not what nobody may think about now: it is told again when somebody may. */
  function tell(change: ContextChange): void {
    if (change.type === 'opened' && isBarred(change.tenantId)) return;
    services.sidecar.notify(change);
  }

  const about = ({ id, tenantId, homeId }: Pick<ActiveContext, 'id' | 'tenantId' | 'homeId'>) => ({
    ...{ contextId: id, tenantId, homeId, at: clock.now() },
  });

  /** A suspension that nobody here will end, as after a restart, is over. */
  const awake = (context: ActiveContext): ActiveContext =>
    context.kind === 'observation' && context.phase === 'suspended' && !alarms.has(context.id)
      ? { ...context, phase: 'thinking' }
      : context;

  async function wake(id: Uuid): Promise<void> {
    const woken = await store.proposals.change(id, { phase: 'thinking' });
    if (woken !== null) tell({ ...about(woken), type: 'opened' });
  }

  /** Nobody may think for them any more, or somebody may again. */
  async function tellAll(barred: boolean, detail: string, tenantId?: Uuid): Promise<void> {
    if (!services.sidecar.connected()) return;
    for await (const context of activeContexts(services, tenantId)) {
      if (closed) return;
      if (!barred) tell({ ...about(context), type: 'opened' });
      // What may be thought about again by now was told so already, or is about to be.
      else if (isBarred(context.tenantId))
        services.sidecar.notify({ ...about(context), type: 'interrupted', reason: 'SUSPENDED', detail });
    }
  }

  const deaf = [
    actors.subscribe('context.changed', ({ change }) => tell(change)),
    actors.subscribe('tenant.changed', ({ tenantId, suspended }) => {
      void quietly(tellAll(suspended, 'The tenant is suspended.', tenantId));
    }),
  ];
  flags.subscribe((flag, state) => {
    if (flag === 'cognition_disabled') void quietly(tellAll(state, 'The cognitive layer is switched off.'));
  });

  return {
    async *active(tenantId) {
      if (tenantId !== undefined && (await cognitionRefusal(services, tenantId)) !== null) return;
      for await (const context of activeContexts(services, tenantId)) {
        if (services.flags().cognition_disabled) return;
        yield awake(context);
      }
    },

    async context(id) {
      const found = await findContext(services, id);
      if (found === null || (await cognitionRefusal(services, tenantOfContext(found))) !== null) return null;
      const active = activeContextOf(services, found);
      return active && awake(active);
    },

    world: worlds.load,
    worldOf: ({ tenantId, homeId, deviceId, kind }) =>
      worlds.load({ tenantId, homeId, deviceId: kind === 'device' ? deviceId : null }),
    stateOf: worlds.stateOf,
    memories: (tenantId) => memoriesOf(services, tenantId),
    ...makeSidecarHandlers(services, alarms),

    sizes: () => ({ ...worlds.sizes(), ...alarms.sizes() }),

    close() {
      closed = true;
      alarms.close();
      for (const stop of deaf) stop();
    },
  };
}

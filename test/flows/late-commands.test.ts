import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ActorKind } from '../../src/machines/outputs.ts';
import type { PlanContext } from '../../src/machines/plan-types.ts';
import { type Store, StoreUnavailable } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { eachDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';

/** A store that can have two turns in flight, and holds those of some kinds of actors until they are released. */
class HeldTurns {
  readonly waiting = new Map<ActorKind, PromiseWithResolvers<void>>();
  readonly stopped = new Set<ActorKind>();
  /** Nobody learns which commands of a device are open. */
  hidesOpenCommands = false;

  hold(...kinds: ActorKind[]): void {
    for (const kind of kinds) this.waiting.set(kind, Promise.withResolvers());
  }

  release(kind: ActorKind): void {
    this.waiting.get(kind)?.resolve();
    this.waiting.delete(kind);
    this.stopped.delete(kind);
  }

  around = (store: Store): Store => ({
    ...store,
    turnsInFlight: 2,
    commands: {
      ...store.commands,
      open: async (deviceId) => {
        if (this.hidesOpenCommands) throw new StoreUnavailable('hidden by the test');
        return store.commands.open(deviceId);
      },
    },
    actors: {
      ...store.actors,
      commit: async (turn) => {
        for (const { ref } of turn.actors) {
          const held = this.waiting.get(ref.kind);
          if (held === undefined) continue;
          this.stopped.add(ref.kind);
          await held.promise;
        }
        return store.actors.commit(turn);
      },
    },
  });
}

eachDeployment('what is decided beside a revocation or a suspension', (deployment) => {
  const turns = new HeldTurns();
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  beforeAll(async () => {
    at = await startService(deployment().env, { aroundStore: turns.around });
    owner = await at.owner();
  });
  afterAll(() => at?.stop());

  const statusOf = async (id: string) => (await owner.get(`/v1/commands/${id}`)).body.command.status;

  it.each([
    ['a command', 'smart_light', 'turn_on', 202],
    ['a command that waits for a confirmation', 'smart_lock', 'unlock', 409],
  ])('%s is cancelled, and is not delivered after a reinstatement', async (_, device_type, action, expected) => {
    const { device_id } = await register(owner, { device_type });
    turns.hold('device', 'command');
    const revoked = owner.post(`/v1/device/${device_id}/revoke`, { reason: 'stolen' });
    await eventually(() => turns.stopped.has('device'));
    const commanded = owner.post(`/v1/device/${device_id}/command`, { action });
    await eventually(() => turns.stopped.has('command'));
    turns.release('device');
    expect((await revoked).status).toBe(200);
    turns.release('command');
    const { status, body } = await commanded;
    expect(status).toBe(expected);
    await eventually(async () => (await statusOf(body.command_id)) === 'cancelled');
    const { status: reinstated } = await owner.post(`/v1/device/${device_id}/reinstate`, { reason: 'found' });
    expect([reinstated, await statusOf(body.command_id)]).toEqual([200, 'cancelled']);
  });

  it('a command is cancelled by the reinstatement where the message of the revocation is still on its way', async () => {
    const { device_id } = await register(owner);
    const commanded = await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on' });
    turns.hidesOpenCommands = true;
    const revoked = await owner.post(`/v1/device/${device_id}/revoke`, { reason: 'stolen' });
    expect([revoked.status, await statusOf(commanded.body.command_id)]).toEqual([200, 'dispatched']);
    const early = await owner.post(`/v1/device/${device_id}/reinstate`, { reason: 'found' });
    expect([early.status, early.body.code]).toEqual([503, 'STORE_UNAVAILABLE']);
    turns.hidesOpenCommands = false;
    const reinstated = await owner.post(`/v1/device/${device_id}/reinstate`, { reason: 'found' });
    expect([reinstated.status, await statusOf(commanded.body.command_id)]).toEqual([200, 'cancelled']);
  });

  it('a step of a plan is held back until the tenant is resumed', async () => {
    const admin = at.api(await at.token('operator', { scope: 'platform:admin' }));
    const { device_id } = await register(owner);
    turns.hold('tenant', 'plan');
    const suspended = admin.post(`/v1/admin/tenants/${owner.tenantId}/suspend`, {});
    await eventually(() => turns.stopped.has('tenant'));
    const steps = [{ id: 'a', device_id, action: 'turn_on', depends_on: [] }];
    const planned = owner.post('/v1/plans', { name: 'Beside', steps });
    await eventually(() => turns.stopped.has('plan'));
    turns.release('tenant');
    expect((await suspended).status).toBe(200);
    turns.release('plan');
    const { status, body } = await planned;
    expect(status).toBe(202);
    const askOf = async () => {
      const plan = await at.services.actors.read<PlanContext>({ kind: 'plan', id: body.plan.id });
      return plan?.snapshot.context.steps[0]?.ask;
    };
    await eventually(async () => (await askOf()) === 'held');
    expect((await admin.post(`/v1/admin/tenants/${owner.tenantId}/resume`, {})).status).toBe(200);
    await eventually(async () => (await askOf()) === 'made');
  });
});

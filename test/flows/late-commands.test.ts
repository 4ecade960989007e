import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ActorKind } from '../../src/machines/outputs.ts';
import type { PlanContext } from '../../src/machines/plan-types.ts';
import { type ActorCommit, CommitUnknown, type Store, StoreUnavailable } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { connect, register } from '../support/device.ts';
import { recordingLog } from '../support/lock-parts.ts';
import { startService, type TestService } from '../support/service.ts';

const asEarlierBuild = (row: ActorCommit['outbox'][number]): ActorCommit['outbox'][number] => {
  if (row.output.type !== 'commands.tell') return row;
  const { revokedAt: _, ...output } = row.output;
  return { ...row, output };
};

/** A store that can hold batches of some kinds of actors until they are released, with two batches in flight. */
class HeldTurns {
  readonly waiting = new Map<ActorKind, PromiseWithResolvers<void>>();
  readonly stopped = new Set<ActorKind>();
  /** The open commands of a device cannot be listed. */
  hidesOpenCommands = false;
  /** The message of a revocation is not delivered. */
  hidesMessage = false;
  /** Open commands of revoked devices are not found. */
  hidesOpenOfRevoked = false;
  /** New commands are committed without the runtime getting the result. */
  losesAnswers = false;
  /** Commits of new commands have an unknown outcome, and reach the store at `commitDelayed`. */
  isCommittedLater = false;
  readonly #delayed: (() => Promise<unknown>)[] = [];
  /** The store refuses every new version of this actor. */
  refused = '';
  /** A reinstatement does not cancel open commands. */
  isReinstatedByEarlierBuild = false;
  /** Messages of revocations are stored without their time. */
  isEarlierBuild = false;

  hold(...kinds: ActorKind[]): void {
    for (const kind of kinds) this.waiting.set(kind, Promise.withResolvers());
  }

  release(kind: ActorKind): void {
    this.waiting.get(kind)?.resolve();
    this.waiting.delete(kind);
    this.stopped.delete(kind);
  }

  /** An attempt and its repetitions: the first one to run determines the result. */
  async commitDelayed(): Promise<void> {
    for (const commit of this.#delayed.splice(0)) await commit();
  }

  #changed(commits: readonly ActorCommit[]): readonly ActorCommit[] {
    const spoil = { poison: '\u0000' };
    const spoiled = commits.map((one) =>
      one.ref.id === this.refused ? { ...one, fixedUnchanged: false, fixed: { ...one.fixed, ...spoil } } : one,
    );
    if (!this.isEarlierBuild) return spoiled;
    return spoiled.map((one) => ({ ...one, outbox: one.outbox.map(asEarlierBuild) }));
  }

  around = (store: Store): Store => ({
    ...store,
    batchesInFlight: 2,
    commands: {
      ...store.commands,
      open: async (deviceId, revokedAt) => {
        const isHidden = this.hidesOpenCommands || (this.hidesMessage && revokedAt !== undefined);
        if (this.isReinstatedByEarlierBuild && revokedAt === undefined) return [];
        if (isHidden) throw new StoreUnavailable('hidden by the test');
        return store.commands.open(deviceId, revokedAt);
      },
      openOnRevokedDevices: async () => {
        if (this.hidesOpenOfRevoked) throw new StoreUnavailable('hidden by the test');
        return store.commands.openOnRevokedDevices();
      },
    },
    actors: {
      ...store.actors,
      commit: async (commits, options) => {
        for (const { ref } of commits) {
          const held = this.waiting.get(ref.kind);
          if (held === undefined) continue;
          this.stopped.add(ref.kind);
          await held.promise;
        }
        const isNew = commits.some(({ ref, readVersion }) => ref.kind === 'command' && readVersion === 0);
        if (this.isCommittedLater && isNew) {
          this.#delayed.push(() => store.actors.commit(commits, options));
          throw new CommitUnknown('delayed by the test');
        }
        const answer = await store.actors.commit(this.#changed(commits), options);
        if (this.losesAnswers && isNew) throw new CommitUnknown('lost by the test');
        return answer;
      },
    },
  });
}

oneDeployment('a decision concurrent with a revocation or a suspension', (deployment) => {
  const turns = new HeldTurns();
  const { log, lines } = recordingLog();
  const options = { wrapStore: turns.around, log, limits: { runtime: { deviceTimeoutMs: 200 } } };
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  beforeAll(async () => {
    at = await startService(deployment().env, options);
    owner = await at.owner();
  });
  afterAll(() => at?.stop());

  const undelivered = async (deviceId: string) =>
    (await at.services.store.actors.pendingOutbox(1_000, 0)).filter(({ from }) => from.id === deviceId);
  const statusOf = async (id: string) => (await owner.get(`/v1/commands/${id}`)).body.command.status;

  it.each([
    ['a command', 'smart_light', 'turn_on', 202],
    ['a command that awaits confirmation', 'smart_lock', 'unlock', 409],
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

  it('a command is cancelled by the reinstatement while the message of the revocation is undelivered', async () => {
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

  /** A command that is committed together with the revocation of its device and never released. */
  async function unreleased(): Promise<{ deviceId: string; commandId: string }> {
    const { device_id: deviceId } = await register(owner);
    turns.hold('device', 'command');
    turns.losesAnswers = true;
    const revoked = owner.post(`/v1/device/${deviceId}/revoke`, { reason: 'stolen' });
    await eventually(() => turns.stopped.has('device'));
    const commanded = owner.post(`/v1/device/${deviceId}/command`, { action: 'turn_on' });
    await eventually(() => turns.stopped.has('command'));
    turns.release('device');
    expect((await revoked).status).toBe(200);
    turns.release('command');
    expect((await commanded).status).toBe(503);
    turns.losesAnswers = false;
    const listed = () => at.services.store.commands.list(owner.tenantId, deviceId, 10);
    const command = await eventually(async () => (await listed()).items[0]);
    return { deviceId, commandId: command.ref.id };
  }

  it('a command whose commit had an unknown outcome is cancelled once it is stored', async () => {
    const { commandId } = await unreleased();
    await eventually(async () => (await statusOf(commandId)) === 'cancelled');
  });

  it('a command whose process ended between commit and release is cancelled by the next process', async () => {
    turns.hidesOpenOfRevoked = true;
    const { deviceId, commandId } = await unreleased();
    await at.stop();
    turns.hidesOpenOfRevoked = false;
    turns.hidesOpenCommands = true;
    at = await startService(deployment().env, options);
    owner = { ...owner, ...at.api(owner.token) };
    expect(await statusOf(commandId)).toBe('cancelled');
    turns.hidesOpenCommands = false;
    const { entries } = (await owner.get(`/v1/actors/command/${commandId}/journal`)).body;
    expect(entries[0]).toMatchObject({ event: 'device.revoked', data: { reason: 'the device was revoked' } });
    expect((await owner.get(`/v1/devices/${deviceId}`)).body.device.revoked).toBe(true);
  });

  it('a command with an unknown outcome that is stored after a reinstatement is cancelled, never delivered', async () => {
    const registered = await register(owner);
    const { device_id } = registered;
    turns.hidesOpenOfRevoked = true;
    turns.isCommittedLater = true;
    const early = await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on' });
    expect(early.status).toBe(503);
    turns.isCommittedLater = false;
    expect((await owner.post(`/v1/device/${device_id}/revoke`, { reason: 'stolen' })).status).toBe(200);
    const { status, body } = await owner.post(`/v1/device/${device_id}/reinstate`, { reason: 'found' });
    expect(status).toBe(200);
    await turns.commitDelayed();
    const [stored] = (await at.services.store.commands.list(owner.tenantId, device_id, 10)).items;
    expect(stored).toBeDefined();
    // The session requests pending commands before the store lists those of revoked devices.
    const keys = { device_secret: body.new_secret, key_version: body.key_version };
    const device = await connect({ ...registered, ...keys }, { commands: { turn_on: () => undefined } });
    const received: string[] = [];
    device.on('command', ({ command_id }) => received.push(command_id));
    const after = await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on' });
    await eventually(async () => (await statusOf(after.body.command_id)) === 'succeeded');
    turns.hidesOpenOfRevoked = false;
    await eventually(async () => (await statusOf(stored?.ref.id ?? '')) === 'cancelled');
    expect(received).toEqual([after.body.command_id]);
    await device.close();
  });

  it('a revocation that is delivered after the reinstatement cancels only commands from before it', async () => {
    const { device_id } = await register(owner);
    const before = await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on' });
    turns.hidesMessage = true;
    expect((await owner.post(`/v1/device/${device_id}/revoke`, { reason: 'stolen' })).status).toBe(200);
    turns.isReinstatedByEarlierBuild = true;
    expect((await owner.post(`/v1/device/${device_id}/reinstate`, { reason: 'found' })).status).toBe(200);
    turns.isReinstatedByEarlierBuild = false;
    const after = await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on' });
    expect([before.status, after.status]).toEqual([202, 202]);
    expect(await undelivered(device_id)).toHaveLength(1);
    const statuses = () => Promise.all([before, after].map(({ body }) => statusOf(body.command_id)));
    expect(await statuses()).toEqual(['dispatched', 'dispatched']);
    turns.hidesMessage = false;
    await eventually(async () => (await undelivered(device_id)).length === 0);
    expect(await statuses()).toEqual(['cancelled', 'dispatched']);
  });

  it('a revocation that an earlier build stored is delivered to all open commands of the device', async () => {
    const { device_id } = await register(owner);
    turns.hidesOpenCommands = true;
    turns.isEarlierBuild = true;
    const { body } = await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on' });
    expect((await owner.post(`/v1/device/${device_id}/revoke`, {})).status).toBe(200);
    const [row] = await undelivered(device_id);
    const event = { type: 'device.revoked', deviceId: device_id };
    expect(row?.output).toEqual({ type: 'commands.tell', deviceId: device_id, event });
    turns.isEarlierBuild = false;
    turns.hidesOpenCommands = false;
    await eventually(async () => (await statusOf(body.command_id)) === 'cancelled');
  });

  it('a quarantined command that stays open is named in the refusal of the reinstatement', async () => {
    const { device_id } = await register(owner);
    const { command_id } = (await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on' })).body;
    turns.refused = command_id;
    for (let n = 0; n < 3; n++) await owner.post(`/v1/commands/${command_id}/cancel`, {});
    const path = `/v1/actors/command/${command_id}`;
    expect((await owner.get(path)).body.actor.quarantined).toBe(true);
    expect((await owner.post(`/v1/device/${device_id}/revoke`, {})).status).toBe(200);
    const blocked = await owner.post(`/v1/device/${device_id}/reinstate`, { reason: 'found' });
    expect([blocked.status, blocked.body.code]).toEqual([409, 'CONFLICT']);
    expect(blocked.body.detail).toContain(`POST ${path}/release`);
    const line = lines.find(({ message }) => message === 'device not reinstated: open commands are quarantined');
    expect(line).toMatchObject({
      level: 'warn',
      fields: { device: device_id, commands: [command_id], release: `POST ${path}/release` },
    });
    turns.refused = '';
    expect((await owner.post(`${path}/release`, {})).status).toBe(200);
    expect((await owner.post(`/v1/device/${device_id}/reinstate`, { reason: 'found' })).status).toBe(200);
    expect(await statusOf(command_id)).toBe('cancelled');
  });

  it('a step of a plan is held until the tenant is resumed', async () => {
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
      return plan?.snapshot.context.live.steps[0]?.ask;
    };
    await eventually(async () => (await askOf()) === 'held');
    expect((await admin.post(`/v1/admin/tenants/${owner.tenantId}/resume`, {})).status).toBe(200);
    await eventually(async () => (await askOf()) === 'made');
  });
});

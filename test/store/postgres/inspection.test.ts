import { expect, it } from 'vitest';
import type { CommandStatus } from '../../../src/domain/command.ts';
import type { Position } from '../../../src/domain/cursor.ts';
import type { ActorFilter } from '../../../src/store/contract/inspection.ts';
import {
  commandCommit,
  deviceCommit,
  journalEntry,
  newId,
  nextCommit,
  tenantCommit,
} from '../../support/actor-commits.ts';
import { slow } from '../../support/slow.ts';
import { eachStore } from '../../support/store.ts';

const online = { administration: { active: 'one_key' }, link: 'online' };
const offline = { administration: { active: 'two_keys' }, link: 'offline' };
const revoked = { administration: 'revoked', link: 'offline' };
const named = (...groups: string[][]): ActorFilter => ({
  states: groups.map((group) => group.map((path) => path.split('.'))),
});

eachStore('inspection', (backend, has) => {
  const inspection = () => backend().store.inspection;
  const commit = (...actors: ReturnType<typeof deviceCommit>[]) => backend().store.actors.commit(actors);

  it('finds actors by their active states, at any depth', async () => {
    const tenantId = newId();
    const devices = [
      deviceCommit({ tenantId, value: online, columns: { online: true, created_at: 3 } }),
      deviceCommit({ tenantId, value: offline, columns: { created_at: 2 } }),
      deviceCommit({ tenantId, value: revoked, columns: { revoked: true, created_at: 1 } }),
      deviceCommit({ tenantId, value: revoked, columns: { revoked: true, deleted: true, created_at: 4 } }),
    ];
    await commit(...devices);
    const places = devices.map(({ ref }) => ref.id);
    const found = async (filter: ActorFilter) =>
      (await inspection().actors(tenantId, 'device', filter, 10)).items.map(({ ref }) => places.indexOf(ref.id));
    expect(await found({})).toEqual([0, 1, 2]);
    expect(await found(named(['administration.active']))).toEqual([0, 1]);
    expect(await found(named(['administration.active.two_keys']))).toEqual([1]);
    expect(await found(named(['link.online']))).toEqual([0]);
    expect(await found(named(['administration.revoked']))).toEqual([2]);
    expect(await found(named(['link.offline'], ['administration.active']))).toEqual([1]);
    expect(await found(named(['link.online', 'administration.revoked']))).toEqual([0, 2]);
    expect(await found(named(['link.offline'], ['link.online']))).toEqual([]);
    const tenant = tenantCommit({ value: 'active' });
    await commit(tenant);
    expect((await inspection().actors(tenant.ref.id, 'tenant', named(['active']), 10)).items).toEqual([
      {
        ref: tenant.ref,
        name: expect.any(String),
        version: 1,
        value: 'active',
        since: 1_000,
        createdAt: 1_000,
        quarantine: null,
        command: null,
      },
    ]);
    expect((await inspection().actors(tenant.ref.id, 'tenant', named(['suspended']), 10)).items).toEqual([]);
  });

  it('shows the device, the parameters and the requester of a command, with and without a filter of states', async () => {
    const tenantId = newId();
    const requestedBy = { kind: 'user', id: newId() };
    const device = deviceCommit({ tenantId, fixed: { name: 'Lamp' } });
    const foreign = deviceCommit({ tenantId: newId() });
    const of = (deviceId: string) =>
      commandCommit({
        ...{ tenantId, value: 'queued', columns: { device_id: deviceId } },
        fixed: { params: { level: 40 }, requestedBy },
      });
    await commit(device, foreign, of(device.ref.id), of(foreign.ref.id));
    for (const filter of [{}, named(['queued'])]) {
      const { items } = await inspection().actors(tenantId, 'command', filter, 10);
      const commands = new Map(items.map(({ command }) => [command?.deviceId, command]));
      const shared = { params: { level: 40 }, requestedBy };
      expect(commands.get(device.ref.id)).toEqual({ deviceId: device.ref.id, deviceName: 'Lamp', ...shared });
      expect(commands.get(foreign.ref.id)).toEqual({ deviceId: foreign.ref.id, deviceName: null, ...shared });
    }
  });

  it('finds quarantined actors', async () => {
    const tenantId = newId();
    const [held, free] = [commandCommit({ tenantId }), commandCommit({ tenantId })];
    await commit(held, free);
    await backend().store.actors.quarantine(held.ref, 'it failed');
    const found = async (quarantined: boolean) =>
      (await inspection().actors(tenantId, 'command', { quarantined }, 10)).items.map(({ ref }) => ref.id);
    expect([await found(true), await found(false)]).toEqual([[held.ref.id], [free.ref.id]]);
  });

  /** Inserts 20,500 commands in the database: the oldest is queued, all others failed. */
  const insertCommands = (tenantId: string) =>
    backend().database.write({
      text: `insert into commands (id, tenant_id, version, machine_version, value, context, since, device_id, action, status,
          verification, critical, written, created_at)
        select gen_random_uuid(), $1, 1, 1, case when i = 1 then '{"lifecycle":"queued"}' else '{"lifecycle":"failed"}' end::jsonb,
          '{}', 1, gen_random_uuid(), 'x', 'failed', 'unverifiable', false, false, i from generate_series(1, 20500) i`,
      values: [tenantId],
    });

  it('reads a limited number of actors for one page, and continues with the next', slow, async () => {
    const tenantId = newId();
    const lifecycle = (n: number) => ({ lifecycle: n === 1 ? 'queued' : 'failed' });
    if (has.sql) await insertCommands(tenantId);
    else {
      const of = (n: number) => commandCommit({ tenantId, value: lifecycle(n), columns: { created_at: n } });
      await commit(...Array.from({ length: 20_500 }, (_, n) => of(n + 1)));
    }
    const filter = named(['lifecycle.queued']);
    const seen: number[] = [];
    const found: number[] = [];
    let after: Position | undefined;
    do {
      const page = await inspection().actors(tenantId, 'command', filter, 50, after);
      seen.push(page.items.length);
      found.push(...page.items.map(({ createdAt }) => createdAt));
      after = page.next ?? undefined;
    } while (after);
    expect([seen, found]).toEqual([[0, 1], [1]]);
  });

  it('counts actors and recent failures of one tenant only', async () => {
    const tenantId = newId();
    const device = (columns = {}) => deviceCommit({ tenantId, columns: { created_at: 1, ...columns } });
    const [lamp, door] = [device({ online: true }), device()];
    const of = (deviceId: string, status: CommandStatus, created_at = 100) =>
      commandCommit({ tenantId, columns: { device_id: deviceId, status, created_at } });
    await commit(lamp, door, device({ deleted: true }), deviceCommit({ columns: { online: true, created_at: 1 } }));
    await commit(device({ revoked: true }), device({ revoked: true, online: true }));
    await commit(
      ...[of(lamp.ref.id, 'succeeded'), of(lamp.ref.id, 'failed'), of(door.ref.id, 'failed')],
      ...[of(door.ref.id, 'timed_out'), of(door.ref.id, 'failed', 10), of(newId(), 'failed')],
    );
    // A dry run waits for nobody.
    const waiting = { device_id: door.ref.id, status: 'awaiting_confirmation', created_at: 100 } as const;
    const confirmations = [{ asked: true }, { asked: false }, {}];
    await commit(
      ...confirmations.map((confirmation) => commandCommit({ tenantId, columns: waiting, fixed: { confirmation } })),
    );
    const { devices, commands, failing, rollbacksFailed } = await inspection().overview(tenantId, 50);
    expect(devices).toEqual({ total: 2, online: 1 });
    expect(commands).toEqual({ succeeded: 1, failed: 3, timed_out: 1, awaiting_confirmation: 2 });
    expect(failing.map(({ deviceId, failures }) => [deviceId, failures])).toEqual([
      [door.ref.id, 2],
      [lamp.ref.id, 1],
    ]);
    expect(rollbacksFailed).toEqual([]);
    expect(await inspection().overview(newId(), 0)).toEqual({
      ...{ devices: { total: 0, online: 0 }, commands: {}, failing: [], rollbacksFailed: [] },
    });
  });

  it('shows an actor, its timers and its journal to its own tenant only', async () => {
    const tenantId = newId();
    const device = deviceCommit({ tenantId, version: 3, journal: [1, 2, 3].map((version) => journalEntry(version)) });
    device.timers.set.push(
      { ref: device.ref, id: 'b', event: 'over', dueAt: 20 },
      { ref: device.ref, id: 'a', event: 'early', dueAt: 10 },
    );
    await commit(device);
    expect(await inspection().actor(tenantId, device.ref)).toMatchObject({ ref: device.ref, version: 3, tenantId });
    expect((await inspection().timers(device.ref)).map(({ event }) => event)).toEqual(['early', 'over']);
    const versions = async (tenant: string, limit: number, before?: number) =>
      (await inspection().journal(tenant, device.ref, limit, before)).map(({ version }) => version);
    expect([await versions(tenantId, 2), await versions(tenantId, 2, 2)]).toEqual([[3, 2], [1]]);
    expect(await inspection().actor(newId(), device.ref)).toBeNull();
    expect(await inspection().actor(tenantId, { kind: 'command', id: device.ref.id })).toBeNull();
    expect(await versions(newId(), 2)).toEqual([]);
    await commit(nextCommit(device, { columns: { ...device.columns, deleted: true } }));
    expect(await inspection().actor(tenantId, device.ref)).toBeNull();
    expect(await versions(tenantId, 9)).toEqual([3, 2, 1]);
  });
});

import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/domain/values.ts';
import { DataRefused } from '../../../src/store/contract.ts';
import {
  commandCommit,
  deviceCommit,
  idempotencyRow,
  journalEntry,
  newId,
  nextCommit,
  tenantCommit,
} from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';
import { commitCalls, keyPut, outputTo } from './commit-calls.ts';

/** A commit that writes to every table. */
function full(id = newId()) {
  const idempotency = idempotencyRow();
  const commit = deviceCommit({
    id,
    journal: [journalEntry(1)],
    outbox: [{ n: 0, output: outputTo(id) }],
    timers: { set: [{ ref: { kind: 'device', id }, id: 'grace', event: 'over', dueAt: 5_000 }] },
    rows: [
      keyPut(id, 1),
      {
        type: 'manifest.put',
        manifest: { deviceId: id, tenantId: newId(), category: 'light', version: 1, own: false, capabilities: [] },
      },
    ],
    idempotency,
  });
  return { id, commit, idempotency };
}

eachStore('a commit', (backend, has) => {
  const { actors, devices, commitAll, load, outboxOf, timersOf } = commitCalls(backend);

  it('without content does nothing', async () => {
    expect(await actors().commit([])).toEqual({ lost: [] });
  });

  it('creates an actor, which is read back unchanged', async () => {
    const context: JsonObject = {
      text: 'quotes " and \\ and ’ and \n and 𝄞',
      number: -1.5e-7,
      numbers: [2 ** 53 + 2, 1e308, 5e-324, 0.1],
      hostile: JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1, "": null}'),
      nested: { list: [1, null, true, {}], empty: '' },
    };
    const commit = deviceCommit({
      version: 3,
      value: { link: 'online', administration: { active: 'one' } },
      fixed: context,
    });
    expect(await commitAll(commit)).toEqual({ lost: [] });
    expect(await load(commit.ref.id)).toEqual({
      ref: commit.ref,
      tenantId: commit.tenantId,
      version: 3,
      machineVersion: 1,
      value: commit.value,
      context,
      since: 1_000,
      quarantine: null,
    });
  });

  it('is read by any id, and an invalid UUID matches nothing', async () => {
    const commit = deviceCommit();
    await commitAll(commit);
    const loaded = await actors().load('device', ['', 'no uuid', `${commit.ref.id},x`, '{}', commit.ref.id, newId()]);
    expect(loaded.map((actor) => actor.ref.id)).toEqual([commit.ref.id]);
  });

  it('stores journal, outbox, timers, keys, manifest and stored response with its actor', async () => {
    const { id, commit, idempotency } = full();
    await commitAll(commit);
    expect(await actors().journal({ kind: 'device', id }, 10)).toEqual([journalEntry(1)]);
    expect(await outboxOf(id)).toEqual([[1, 0]]);
    expect(await timersOf(id)).toEqual([{ ref: { kind: 'device', id }, id: 'grace', event: 'over', dueAt: 5_000 }]);
    expect((await devices().keyHistory(id)).map((key) => key.status)).toEqual(['active']);
    expect((await devices().manifests([id])).map((manifest) => manifest.version)).toEqual([1]);
    expect(await backend().store.idempotency.find(idempotency)).toEqual(idempotency);
  });

  it('writes nothing of a conflicted actor, and keeps the others', async () => {
    const { id, commit } = full();
    await commitAll(commit);
    const winner = full();
    const idempotency = idempotencyRow();
    const loser = nextCommit(commit, {
      readVersion: 7,
      version: 8,
      journal: [journalEntry(8)],
      outbox: [{ n: 0, output: outputTo(id) }],
      timers: { set: [{ ref: commit.ref, id: 'new', event: 'over', dueAt: 1 }], clear: ['grace'] },
      rows: [keyPut(id, 2), { type: 'keys.end', deviceId: id, status: 'revoked', at: 2 }],
      idempotency,
      delivered: [{ from: commit.ref, version: 1, n: 0 }],
    });
    expect(await commitAll(loser, winner.commit)).toEqual({ lost: [commit.ref] });
    expect((await load(id))?.version).toBe(1);
    expect(await actors().journal(commit.ref, 10)).toHaveLength(1);
    expect(await outboxOf(id)).toEqual([[1, 0]]);
    expect((await timersOf(id)).map((timer) => timer.id)).toEqual(['grace']);
    expect((await devices().keyHistory(id)).map((key) => key.status)).toEqual(['active']);
    expect(await backend().store.idempotency.find(idempotency)).toBeNull();
    expect(await actors().journal(winner.commit.ref, 10)).toHaveLength(1);
  });

  it('conflicts with an existing actor of the same id', async () => {
    const { commit } = full();
    await commitAll(commit);
    const again = full(commit.ref.id);
    expect(await commitAll(again.commit)).toEqual({ lost: [commit.ref] });
    expect(await backend().store.idempotency.find(again.idempotency)).toBeNull();
    expect(await actors().journal(commit.ref, 10)).toHaveLength(1);
  });

  it('stores the other new actors if one exists already, each with its related rows', async () => {
    const { commit } = full();
    await commitAll(commit);
    const again = full(commit.ref.id);
    const [first, second] = [full(), full()];
    expect(await commitAll(first.commit, again.commit, second.commit)).toEqual({ lost: [commit.ref] });
    expect(await backend().store.idempotency.find(again.idempotency)).toBeNull();
    for (const other of [first, second]) {
      expect(await backend().store.idempotency.find(other.idempotency)).not.toBeNull();
      expect(await actors().journal(other.commit.ref, 10)).toHaveLength(1);
    }
  });

  it('with conflicts of half its actors reports exactly that half', async () => {
    const commits = Array.from({ length: 50 }, () => deviceCommit());
    await commitAll(...commits);
    const changed = commits.map((commit, n) => nextCommit(commit, n % 2 === 0 ? {} : { readVersion: 9, version: 10 }));
    const { lost } = await commitAll(...changed);
    expect(lost).toEqual(commits.filter((_, n) => n % 2 === 1).map((commit) => commit.ref));
  });

  it('that is atomic is stored completely, and reports a conflict of all actors when repeated', async () => {
    const { commit } = full();
    const command = commandCommit();
    const commits = [nextCommit(commit, { value: 'told' }), nextCommit(command), deviceCommit()];
    await commitAll(commit, command);
    expect(await actors().commit(commits, { atomic: true })).toEqual({ lost: [] });
    expect(await actors().commit(commits, { atomic: true })).toEqual({ lost: commits.map(({ ref }) => ref) });
    expect(await load(commit.ref.id)).toMatchObject({ value: 'told', version: 2 });
  });

  it('that is atomic stores nothing if one actor has a newer version', async () => {
    const { id, commit } = full();
    const moved = commandCommit();
    await commitAll(commit, moved);
    const sender = nextCommit(commit, { journal: [journalEntry(2)], timers: { set: [], clear: ['grace'] } });
    const made = full();
    const late = nextCommit(moved, { readVersion: 3, version: 4 });
    const answer = await actors().commit([sender, made.commit, late], {
      delivered: [{ from: commit.ref, version: 1, n: 0 }],
      atomic: true,
    });
    expect(answer).toEqual({ lost: [commit.ref, made.commit.ref, moved.ref] });
    expect((await load(id))?.version).toBe(1);
    expect(await load(made.id)).toBeUndefined();
    expect(await actors().journal(commit.ref, 10)).toHaveLength(1);
    expect(await outboxOf(id)).toEqual([[1, 0]]);
    expect((await timersOf(id)).map((timer) => timer.id)).toEqual(['grace']);
  });

  it('can mix kinds, creations and changes', async () => {
    const device = deviceCommit();
    await commitAll(device);
    const command = commandCommit({ columns: { device_id: device.ref.id } });
    const tenant = tenantCommit();
    expect(await commitAll(nextCommit(device, { value: 'changed' }), command, tenant, deviceCommit())).toEqual({
      lost: [],
    });
    expect((await load(device.ref.id))?.value).toBe('changed');
    expect((await actors().load('command', [command.ref.id]))[0]?.tenantId).toBe(command.tenantId);
    expect(await backend().store.identity.slugTaken(`tenant-${tenant.ref.id}`)).toBe(true);
  });

  it('of 2,000 actors is stored completely', async () => {
    const commits = Array.from({ length: 2_000 }, () => full().commit);
    expect(await commitAll(...commits)).toEqual({ lost: [] });
    expect(await commitAll(...commits.map((commit) => nextCommit(commit, { value: 'changed' })))).toEqual({ lost: [] });
    const loaded = await actors().load(
      'device',
      commits.map((commit) => commit.ref.id),
    );
    expect(loaded).toHaveLength(2_000);
    expect(new Set(loaded.map((actor) => `${actor.version} ${actor.value}`))).toEqual(new Set(['2 changed']));
  });

  it('with a NUL in one row is refused completely, as data', async () => {
    const commits = [deviceCommit(), deviceCommit({ fixed: { text: 'a\u0000b' } }), deviceCommit()];
    await expect(commitAll(...commits)).rejects.toMatchObject({ name: 'DataRefused', sqlState: '22P05' });
    expect(
      await actors().load(
        'device',
        commits.map((commit) => commit.ref.id),
      ),
    ).toEqual([]);
  });

  it('with a lone surrogate is refused as data', async () => {
    await expect(commitAll(deviceCommit({ fixed: { text: 'a\ud800b' } }))).rejects.toBeInstanceOf(DataRefused);
  });

  it('with a value out of range, an invalid id or a slug in use is refused as data', async () => {
    const tenant = tenantCommit();
    await commitAll(tenant);
    const { slug } = tenant.columns as { slug: string };
    for (const bad of [
      deviceCommit({ since: 2 ** 70 }),
      deviceCommit({ id: 'no uuid' }),
      tenantCommit({ columns: { slug } }),
    ]) {
      await expect(commitAll(bad)).rejects.toBeInstanceOf(DataRefused);
    }
  });

  it('stores column values of a command once, and returns the whole context', async () => {
    const [id, tenantId, deviceId] = [newId(), newId(), newId()];
    const fixed = { id, tenantId, deviceId, action: 'turn_on', requestedAt: 1_000, params: { on: true } };
    const context = { ...fixed, status: 'x' };
    const given = { id, tenantId, fixed, live: { status: 'x' }, columns: { device_id: deviceId } };
    const contextOf = async () => {
      const text = 'select context from commands where id = $1';
      return (await backend().database.read<{ context: JsonObject }>({ text, values: [id] }))[0]?.context;
    };
    const made = commandCommit(given);
    await commitAll(made);
    if (has.sql) expect(await contextOf()).toEqual({ params: { on: true } });
    const loaded = async () => (await actors().load('command', [id]))[0]?.context;
    expect(await loaded()).toEqual(context);
    expect((await backend().store.commands.list(tenantId, deviceId, 1)).items[0]?.context).toEqual(context);
    expect((await backend().store.inspection.actor(tenantId, made.ref))?.context).toEqual(context);

    // A different commit is not a repetition, and takes effect.
    const other = nextCommit(made, { fixed: { ...fixed, action: 'turn_off', params: {} }, live: { status: 'y' } });
    await commitAll(other);
    if (has.sql) expect(await contextOf()).toEqual({ action: 'turn_off', params: {} });
    expect(await loaded()).toEqual({ ...other.fixed, ...other.live });
  });

  it('replaces a manifest by the last one of the commit', async () => {
    const { id, commit } = full();
    await commitAll(commit);
    const manifest = { deviceId: id, tenantId: commit.tenantId, category: null, own: true };
    const capability = {
      id: 1,
      action: 'blink',
      description: 'Blinks',
      safetyClass: 'NORMAL' as const,
      paramSchema: { type: 'object' },
      supportsDryRun: false,
    };
    await commitAll(
      nextCommit(commit, {
        rows: [
          { type: 'manifest.put', manifest: { ...manifest, version: 2, capabilities: [] } },
          { type: 'manifest.put', manifest: { ...manifest, version: 3, capabilities: [capability] } },
        ],
      }),
    );
    expect(await devices().manifests([id])).toMatchObject([
      { deviceId: id, category: null, version: 3, own: true, capabilities: [capability] },
    ]);
  });

  describe('that binds a member', () => {
    const user = async () => {
      const id = newId();
      return backend().store.identity.upsertUser({
        id,
        iss: 'urn:test',
        sub: id,
        email: null,
        emailVerified: false,
        createdAt: 1,
      });
    };
    const binding = (userId: string) => {
      const tenant = tenantCommit();
      return {
        ...tenant,
        rows: [{ type: 'member.bind' as const, userId, tenantId: tenant.ref.id, role: 'owner' as const }],
      };
    };

    it('gives a tenant to a user without one', async () => {
      const { id } = await user();
      const commit = binding(id);
      await commitAll(commit);
      expect(await backend().store.identity.user(id)).toMatchObject({ tenantId: commit.ref.id, role: 'owner' });
    });

    it('is refused for a user with a tenant or an unknown user, and creates no tenant', async () => {
      const { id } = await user();
      const first = binding(id);
      await commitAll(first);
      for (const commit of [binding(id), binding(newId())]) {
        await expect(commitAll(commit)).rejects.toMatchObject({ name: 'DataRefused', sqlState: '23505' });
        expect(await actors().load('tenant', [commit.ref.id])).toEqual([]);
      }
      expect((await backend().store.identity.user(id))?.tenantId).toBe(first.ref.id);
    });
  });

  describe('with a stored response', () => {
    it('completes the running request with the same key', async () => {
      const running = idempotencyRow({ state: 'running', answer: 'ids' });
      await backend().store.idempotency.put(running);
      const done = { ...running, state: 'done' as const, answer: 'answer' };
      await commitAll(deviceCommit({ idempotency: { ...done, replaces: 'ids' } }));
      expect(await backend().store.idempotency.find(running)).toEqual(done);
    });

    it('is refused if two of its actors have the same key', async () => {
      const row = idempotencyRow();
      const both = [deviceCommit({ idempotency: row }), deviceCommit({ idempotency: { ...row, answer: 'other' } })];
      await expect(commitAll(...both)).rejects.toMatchObject({ name: 'DataRefused' });
      expect(await backend().store.idempotency.find(row)).toBeNull();
    });
  });

  it('reads the journal newest first, in pages', async () => {
    const commit = deviceCommit({ version: 5, journal: [1, 2, 3, 4, 5].map((version) => journalEntry(version)) });
    await commitAll(commit);
    const page = await actors().journal(commit.ref, 2);
    expect(page.map((entry) => entry.version)).toEqual([5, 4]);
    expect((await actors().journal(commit.ref, 10, 4)).map((entry) => entry.version)).toEqual([3, 2, 1]);
    expect(await actors().journal({ kind: 'command', id: commit.ref.id }, 10)).toEqual([]);
  });

  it('hides a deleted device, and keeps its journal', async () => {
    const { id, commit } = full();
    await commitAll(commit);
    const deleted = nextCommit(commit, {
      columns: { ...commit.columns, revoked: true, deleted: true },
      journal: [journalEntry(2)],
    });
    await commitAll(deleted);
    expect(await load(id)).toBeUndefined();
    expect(await actors().journal(commit.ref, 10)).toHaveLength(2);
    expect(await commitAll(deviceCommit({ id }))).toEqual({ lost: [commit.ref] });
  });

  it('does not change a quarantine', async () => {
    const commit = deviceCommit();
    await commitAll(commit);
    await actors().quarantine(commit.ref, 'it threw');
    await commitAll(nextCommit(commit));
    expect(await load(commit.ref.id)).toMatchObject({ version: 2, quarantine: 'it threw' });
    await actors().quarantine(commit.ref, null);
    expect(await load(commit.ref.id)).toMatchObject({ version: 2, quarantine: null });
  });
});

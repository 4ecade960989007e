import { afterEach, describe, expect, inject, it } from 'vitest';
import type { ChangeRequest } from '../../../src/domain/change-request.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import { newId } from '../../support/actor-commits.ts';
import { eventually } from '../../support/clock.ts';
import { freshDatabase } from '../../support/store.ts';

// An insertion while another session ends the request that it replaces.

const serverUrl = inject('postgresUrl');
const by = { kind: 'user' as const, id: 'v', via: 'rest', person: true };

describe.runIf(serverUrl)('a change request that replaces another', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  it('is not made, and ends no other, if that one ends during the statement', async () => {
    const { url, drop } = await freshDatabase(serverUrl ?? '');
    const [database, other] = [connectPostgres(url), connectPostgres(url)];
    closing.push(
      drop,
      () => database.close(),
      () => other.close(),
    );
    const { changeRequests } = createStore(database);
    const tenantId = newId();
    const request = (subject: string, createdAt: number): ChangeRequest => ({
      ...{ id: newId(), tenantId, operation: 'rotateSecret', subject, base: 'key:1', input: {}, digest: 'd' },
      ...{ preview: { weaker: ['It is weaker.'], changes: {} }, tokenHash: 't', createdAt, expiresAt: 1_000 },
      requestedBy: { kind: 'user', id: 'u', person: true },
      ...{ status: 'awaiting_confirmation', decidedBy: null, decidedAt: null, reason: null },
    });
    const limits = { own: 9, all: 9 };
    const [named, matching, made] = [request('device:1', 1), request('device:2', 2), request('device:2', 3)];
    for (const one of [named, matching]) expect(await changeRequests.insert(one, limits, { by })).toBe('inserted');

    let release = () => {};
    const latch = new Promise<void>((resolve) => {
      release = resolve;
    });
    let isHeld = false;
    const ending = other.transaction(async (query) => {
      await query(`update change_requests set status = 'refused' where id = $1`, [named.id]);
      isHeld = true;
      await latch;
    });
    await eventually(() => isHeld);
    const inserted = changeRequests.insert(made, limits, { by, replaces: named.id });
    const text = `select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()`;
    await eventually(async () => (await database.read({ text })).length > 0);
    release();
    await ending;
    expect(await inserted).toBe('ended');
    expect(await changeRequests.find(made.id)).toBeNull();
    expect(await changeRequests.find(matching.id)).toEqual(matching);
  });
});

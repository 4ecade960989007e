import { expect, it } from 'vitest';
import type { ChangeRequest } from '../../../src/domain/change-request.ts';
import type { Principal } from '../../../src/domain/values.ts';
import type { RowOutput } from '../../../src/machines/outputs.ts';
import { DataRefused, type IdempotencyRow, type Position } from '../../../src/store/contract.ts';
import { deviceCommit, idempotencyRow, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const DAY = 86_400_000;
const by = { kind: 'user' as const, id: 'v', via: 'rest', person: true };

eachStore('change requests', (backend) => {
  const changes = () => backend().store.changeRequests;
  let at = 1_000_000;
  const request = (more: Partial<ChangeRequest> = {}): ChangeRequest => ({
    ...{ id: newId(), tenantId: newId(), operation: 'updateManifest', subject: 'device:1', base: 'manifest:3' },
    ...{ input: { version: 3, capabilities: [{ action: 'open' }] }, digest: 'd', tokenHash: 't' },
    preview: { weaker: ['It is weaker.'], changes: { 'open.safetyClass': { from: 'CRITICAL', to: null } } },
    ...{ requestedBy: { kind: 'user', id: 'u', person: true }, createdAt: ++at, expiresAt: at + 1_000 },
    ...{ status: 'awaiting_confirmation', decidedBy: null, decidedAt: null, reason: null },
    ...more,
  });
  const insert = (one: ChangeRequest, limits = { own: 100, all: 100 }, replaces?: string, also?: IdempotencyRow) =>
    changes().insert(one, limits, { by, replaces }, also);
  const stored = async (more: Partial<ChangeRequest> = {}): Promise<ChangeRequest> => {
    const made = request(more);
    expect(await insert(made)).toBe('inserted');
    return made;
  };
  const end = (more: object = {}) => ({
    status: 'refused' as const,
    decidedBy: by,
    decidedAt: 7,
    reason: 'No',
    ...more,
  });
  /** Commits a new device of the tenant that applies these changes. */
  const apply = (tenantId: string, ...rows: RowOutput[]) =>
    backend().store.actors.commit([deviceCommit({ tenantId, rows })]);
  const applied = ({ id, createdAt }: ChangeRequest, more: object = {}): RowOutput => ({
    ...{ type: 'change.apply', changeId: id, by, at: createdAt },
    ...more,
  });

  it('are returned unchanged, with the stored response of the request', async () => {
    const also = idempotencyRow();
    const made = request();
    expect(await insert(made, undefined, undefined, also)).toBe('inserted');
    expect(await changes().find(made.id)).toEqual(made);
    expect(await backend().store.idempotency.find(also)).toEqual(also);
    expect(await changes().find(newId())).toBeNull();
  });

  it('of a tenant are listed newest first in pages, all or only those that wait', async () => {
    const tenantId = newId();
    const waits = (subject: string) => stored({ tenantId, subject });
    const all = [await waits('device:1'), await waits('device:2'), await waits('device:3')];
    await stored();
    await changes().end(all[1]?.id as string, end());
    const list = async (filter: { waitingAt?: number }) => {
      const found: string[] = [];
      let after: Position | undefined;
      do {
        const page = await changes().list(tenantId, filter, 1, after);
        found.push(...page.items.map(({ id }) => id));
        after = page.next ?? undefined;
      } while (after !== undefined);
      return found;
    };
    const [first, second, third] = all.map(({ id }) => id);
    expect(await list({})).toEqual([third, second, first]);
    expect(await list({ waitingAt: at })).toEqual([third, first]);
    expect(await list({ waitingAt: all[0]?.expiresAt as number })).toEqual([third]);
  });

  it('of a tenant wait up to a limit, which expired and ended ones do not count for', async () => {
    const tenantId = newId();
    const other = { requestedBy: { kind: 'user' as const, id: 'other', person: true } };
    await stored({ tenantId, ...other, expiresAt: at });
    const { id } = await stored({ tenantId, ...other });
    const also = idempotencyRow();
    const more = request({ tenantId });
    const one = { own: 9, all: 1 };
    expect(await insert(more, one, undefined, also)).toBe('all');
    expect(await changes().find(more.id)).toBeNull();
    expect(await backend().store.idempotency.find(also)).toBeNull();
    await changes().end(id, end());
    expect(await insert(more, one, undefined, also)).toBe('inserted');
  });

  it('of a tenant do not count, and are not replaced, if they were created at a time whose requests have expired', async () => {
    const tenantId = newId();
    const made = await stored({ tenantId });
    const one = { own: 1, all: 1 };
    const next = request({ tenantId, subject: 'device:2' });
    expect(await changes().insert(next, one, { by, expiredUntil: made.createdAt - 1 })).toBe('own');
    expect(await changes().insert(next, one, { by, expiredUntil: made.createdAt })).toBe('inserted');
    const again = request({ tenantId });
    const expired = { by, expiredUntil: next.createdAt };
    expect(await changes().insert(again, one, { ...expired, replaces: made.id })).toBe('ended');
    expect(await changes().insert(again, one, expired)).toBe('inserted');
    expect(await changes().find(made.id)).toEqual(made);
  });

  const principal = (more: Partial<Principal> = {}): Principal => ({ kind: 'user', id: 'u', via: 'rest', ...more });
  it.each<[string, Principal, Principal, boolean]>([
    ['a user in person', principal({ person: true }), principal({ person: true, via: 'graphql' }), true],
    ['an API key', principal({ key: 'k' }), principal({ key: 'k', via: 'mcp' }), true],
    ['programs', principal({ person: false }), principal({ person: true, via: 'mcp' }), true],
    ['a person and a program', principal({ person: true }), principal({ person: false }), false],
    ['a person and a key', principal({ person: true }), principal({ key: 'k' }), false],
    ['two keys', principal({ key: 'k' }), principal({ key: 'l' }), false],
    ['two users', principal({ person: true }), principal({ person: true, id: 'v' }), false],
  ])('of %s: the same requester counts for one limit, and replaces its own request', async (_, first, second, same) => {
    const tenantId = newId();
    const made = await stored({ tenantId, requestedBy: first });
    const limits = { own: 1, all: 9 };
    const another = request({ tenantId, requestedBy: second, subject: 'device:2' });
    expect(await insert(another, limits)).toBe(same ? 'own' : 'inserted');
    const again = request({ tenantId, requestedBy: second });
    expect(await insert(again, same ? limits : { own: 9, all: 9 })).toBe('inserted');
    expect(await changes().find(again.id)).toEqual(again);
    const replaced = { status: 'outdated', decidedBy: by, decidedAt: again.createdAt };
    expect(await changes().find(made.id)).toEqual(
      same ? { ...made, ...replaced, reason: `Replaced by the change request ${again.id}.` } : made,
    );
  });

  it('replace a named one in the same statement, if it still waits', async () => {
    const made = await stored();
    const again = request({ tenantId: made.tenantId, subject: 'device:2', requestedBy: by });
    expect(await insert(again, { own: 0, all: 0 }, made.id)).toBe('inserted');
    expect(await changes().find(made.id)).toMatchObject({ status: 'outdated', decidedBy: by });
    const late = request({ tenantId: made.tenantId, subject: 'device:3' });
    expect(await insert(late, undefined, made.id)).toBe('ended');
    expect(await insert(late, undefined, newId())).toBe('ended');
    expect(await changes().find(late.id)).toBeNull();
    const foreign = request();
    expect(await insert(foreign, undefined, again.id)).toBe('ended');
    expect(await changes().find(again.id)).toEqual(again);
  });

  it('end once, with the stored response', async () => {
    const made = await stored();
    const also = idempotencyRow();
    expect(await changes().end(made.id, end(), also)).toEqual({ ...made, ...end() });
    expect(await changes().find(made.id)).toEqual({ ...made, ...end() });
    expect(await backend().store.idempotency.find(also)).toEqual(also);
    expect(await changes().end(made.id, end({ status: 'outdated' }))).toBeNull();
    expect(await changes().end(newId(), end())).toBeNull();
  });

  it('are applied by the commit of what they change', async () => {
    const made = await stored();
    await apply(made.tenantId, applied(made));
    expect(await changes().find(made.id)).toEqual({
      ...{ ...made, status: 'applied', decidedBy: by, decidedAt: made.createdAt },
    });
  });

  it.each<[string, (made: ChangeRequest) => Promise<unknown>]>([
    [
      'that has ended',
      (made) =>
        changes()
          .end(made.id, end())
          .then(() => apply(made.tenantId, applied(made))),
    ],
    ['that was applied', (made) => apply(made.tenantId, applied(made)).then(() => apply(made.tenantId, applied(made)))],
    ['twice in one commit', (made) => apply(made.tenantId, applied(made), applied(made))],
    ['that has expired', (made) => apply(made.tenantId, applied(made, { at: made.expiresAt }))],
    ['of another tenant', (made) => apply(newId(), applied(made))],
    ['that does not exist', (made) => apply(made.tenantId, applied(made, { changeId: newId() }))],
  ])('%s cannot be applied, and nothing of that commit is stored', async (_, work) => {
    const made = await stored();
    await expect(work(made)).rejects.toThrow(DataRefused);
  });

  it('are deleted after the time for commands', async () => {
    const now = Date.now();
    const old = await stored({ createdAt: now - 31 * DAY, id: idAt(now - 31 * DAY) });
    const recent = await stored({ createdAt: now - 29 * DAY, id: idAt(now - 29 * DAY) });
    await backend().store.retention.prune(now, { commands: 30, journal: 1 }, 10);
    expect(await changes().find(old.id)).toBeNull();
    expect(await changes().find(recent.id)).toEqual(recent);
  });
});

/** A UUID version 7 of this time. */
function idAt(time: number): string {
  const hex = time.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}${newId().slice(13)}`;
}

import { expect, it } from 'vitest';
import type { UserSession } from '../../../src/store/contract/user-sessions.ts';
import type { Database, Statement } from '../../../src/store/postgres/database.ts';
import { userSessionStore } from '../../../src/store/postgres/user-sessions.ts';
import { newId } from '../../support/actor-commits.ts';
import { eachDatabase, eachStore } from '../../support/store.ts';

const NOW = 1_800_000_000_000;

eachStore('sessions of users', (backend) => {
  const sessions = () => backend().store.userSessions;
  const identity = () => backend().store.identity;
  let made = 0;

  async function newUser(): Promise<string> {
    const subject = { iss: 'urn:test', sub: newId(), email: null, emailVerified: false };
    return (await identity().upsertUser({ id: newId(), ...subject, createdAt: NOW })).id;
  }
  const session = (userId: string, more: Partial<UserSession> = {}): UserSession => ({
    ...{ id: newId(), tokenId: newId(), userId, kind: 'token', client: null, address: null, ancestors: [] },
    ...{ signedInAt: NOW, createdAt: NOW + made++, lastUsedAt: NOW, expiresAt: NOW + 60_000 },
    ...more,
  });
  const listed = async (userId: string, now = NOW) => (await sessions().list(userId, now, 50)).items;

  it('are listed newest first, and in pages', async () => {
    const userId = await newUser();
    const all = [session(userId), session(userId, { kind: 'browser', client: 'A', address: '::1' }), session(userId)];
    await sessions().record(all);
    await sessions().record([session(await newUser())]);
    await sessions().record([]);
    expect(await listed(userId)).toEqual(all.toReversed());
    const first = await sessions().list(userId, NOW, 2);
    const rest = await sessions().list(userId, NOW, 2, first.next ?? undefined);
    expect([...first.items, ...rest.items]).toEqual(all.toReversed());
    expect(rest.next).toBeNull();
    expect(await sessions().find(all[0]?.id ?? '', NOW)).toEqual(all[0]);
  });

  it('keep their id and origin when they are used again, and the latest use', async () => {
    const userId = await newUser();
    const one = session(userId, { address: '192.0.2.1' });
    await sessions().record([one]);
    const again = { ...one, id: newId(), address: '192.0.2.2', createdAt: NOW + 5_000 };
    await sessions().record([{ ...again, lastUsedAt: NOW + 5_000 }]);
    await sessions().record([{ ...again, lastUsedAt: NOW + 4_000 }]);
    expect(await listed(userId)).toEqual([{ ...one, lastUsedAt: NOW + 5_000 }]);
  });

  it('end when they or an ancestor are revoked, when they expire and when they are forgotten', async () => {
    const userId = await newUser();
    const root = session(userId, { tokenId: `a "quoted", {id} ${newId()}` });
    const child = session(userId, { ancestors: [newId(), root.tokenId] });
    const short = session(userId, { expiresAt: NOW + 1 });
    const forgotten = session(userId);
    const other = session(userId);
    await sessions().record([root, child, short, forgotten, other]);
    await sessions().forget([forgotten.tokenId]);
    await sessions().forget([]);
    expect(await listed(userId)).toEqual([other, short, child, root]);
    expect(await listed(userId, NOW + 1)).toEqual([other, child, root]);
    await identity().revokeToken(root.tokenId, NOW + 60_000);
    expect(await listed(userId, NOW + 1)).toEqual([other]);
    expect(await sessions().find(child.id, NOW + 1)).toBeNull();
  });

  it('end when their user is signed out later than their sign-in, for good', async () => {
    const [userId, unaffected] = [await newUser(), await newUser()];
    const earlier = session(userId, { signedInAt: NOW - 1 });
    const unknown = session(userId, { signedInAt: null });
    const later = session(userId, { signedInAt: NOW });
    const others = session(unaffected, { signedInAt: null });
    await sessions().record([earlier, unknown, later, others]);
    const { tokenId, expiresAt } = later;
    expect(await sessions().signOut(userId, NOW, NOW)).toEqual([{ tokenId, expiresAt }]);
    expect((await identity().user(userId))?.notBefore).toBe(NOW);
    expect((await identity().user(unaffected))?.notBefore).toBeNull();
    expect(await listed(userId)).toEqual([later]);
    expect(await listed(unaffected)).toEqual([others]);
    const recent = await sessions().signOut(userId, NOW - 5_000, NOW - 1);
    expect(new Set(recent.map((one) => one.tokenId))).toEqual(new Set([earlier.tokenId, later.tokenId]));
    expect((await identity().user(userId))?.notBefore).toBe(NOW);
    expect(await sessions().signOut(newId(), NOW, NOW)).toEqual([]);
  });

  it('beyond a number for each user are those that ended, then the oldest, and last those with derived ones', async () => {
    const [userId, other, few] = [await newUser(), await newUser(), await newUser()];
    const [root, old] = [session(userId), session(userId)];
    const [expired, revoked, latest] = [session(userId, { expiresAt: NOW }), session(userId), session(userId)];
    const child = session(userId, { ancestors: ['x', root.tokenId], createdAt: old.createdAt - 1 });
    await sessions().record([root, old, expired, revoked, latest, child]);
    const others = [session(other), session(other)];
    await sessions().record([...others, session(few)]);
    await identity().revokeToken(revoked.tokenId, NOW + 60_000);
    const beyond = async (userIds: string[], max: number) =>
      (await sessions().surplus(userIds, NOW, max)).map(({ tokenId, valid }) => [tokenId, valid]);
    const ended = [expired, revoked].map(({ tokenId }) => [tokenId, false]);
    expect(await beyond([userId], 6)).toEqual([]);
    expect(await beyond([userId], 4)).toEqual(ended);
    const oldest = [child, old, latest, root].map(({ tokenId }) => [tokenId, true]);
    expect(await beyond([userId], 1)).toEqual([...ended, ...oldest.slice(0, 3)]);
    expect(await beyond([few, newId()], 1)).toEqual([]);
    expect(await beyond([other, few], 1)).toEqual([[others[0]?.tokenId, true]]);
    expect(await sessions().surplus([other], NOW, 1)).toEqual([
      { tokenId: others[0]?.tokenId, expiresAt: others[0]?.expiresAt, valid: true },
    ]);
    const signedOut = await newUser();
    const [before, unknown] = [session(signedOut, { signedInAt: NOW - 1 }), session(signedOut, { signedInAt: null })];
    const after = session(signedOut);
    await sessions().record([after, before, unknown]);
    await sessions().signOut(signedOut, NOW, NOW);
    expect(await beyond([signedOut], 1)).toEqual([before, unknown].map(({ tokenId }) => [tokenId, false]));
  });

  it('are deleted when they have expired', async () => {
    const userId = await newUser();
    const [gone, kept] = [session(userId, { expiresAt: NOW - 1 }), session(userId, { expiresAt: NOW })];
    await sessions().record([gone, kept]);
    await backend().store.retention.prune(NOW, { commands: 90, journal: 365 }, 1);
    expect(await listed(userId, 0)).toEqual([kept]);
  });

  it('belong to an existing user, and have distinct ids', async () => {
    await expect(sessions().record([session(newId())])).rejects.toMatchObject({ sqlState: '23503' });
    const one = session(await newUser());
    await sessions().record([one]);
    await expect(sessions().record([{ ...one, tokenId: newId() }])).rejects.toMatchObject({ sqlState: '23505' });
  });
});

eachDatabase('the plan of a read of sessions', (backend) => {
  it('looks the ids up in the index of the revoked tokens', async () => {
    const { database } = backend();
    const sql = (text: string) => database.write({ text });
    await sql(`insert into users (id, iss, sub, email_verified, role, created_at)
      select gen_random_uuid(), 'urn:test', n::text, false, 'none', ${NOW} from generate_series(1, 50) n`);
    await sql(`insert into user_sessions (id, token_id, user_id, kind, ancestors, created_at, last_used_at, expires_at)
      select gen_random_uuid(), u.sub || '-' || n, u.id, 'token', jsonb_build_array(u.sub || '-0', 'other'),
        ${NOW} + n, ${NOW}, ${NOW + 60_000} from users u, generate_series(1, 20) n`);
    await sql(`insert into revoked_tokens (jti, expires_at)
      select 'revoked-' || n, ${NOW} from generate_series(1, 20000) n`);
    for (const table of ['users', 'user_sessions', 'revoked_tokens']) await sql(`analyze ${table}`);
    const statements: Statement[] = [];
    const read = async (statement: Statement) => statements.splice(statements.length, 0, statement);
    const store = userSessionStore({ read } as unknown as Database);
    await store.list(newId(), NOW, 50);
    await store.find(newId(), NOW);
    await store.surplus([newId()], NOW, 50);
    expect(statements).toHaveLength(3);
    for (const { name, text, values = [] } of statements) {
      const rows = await database.read<{ 'QUERY PLAN': string }>({ text: `explain ${text}`, values });
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      expect([name, plan]).toEqual([name, expect.stringContaining('using revoked_tokens_pkey')]);
      expect([name, plan]).toEqual([name, expect.not.stringContaining('Seq Scan on revoked_tokens')]);
    }
  });
});

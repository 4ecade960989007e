import { z } from 'zod';
import { referenceOf } from '../../domain/clock.ts';
import { iso } from '../../domain/iso-time.ts';
import { mayDecideOn } from '../../domain/membership.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { UserSession } from '../../store/contract/user-sessions.ts';
import { cursorAfter, cursorsIn, idOf, isoTime, listCount, nextCursor, notFound, paging, startOf } from '../inputs.ts';
import { type Answer, type Caller, type CookieChange, operation, type Services, tenantOf } from '../operation.ts';
import { withMembersLock } from './members.ts';

const members = {
  id: uuid,
  kind: z.enum(['browser', 'command_line', 'token']).meta({
    description: '`browser`: a cookie session; `command_line`: from `twinkeep login`; `token`: any other token',
  }),
  client: z.string().nullable().meta({ description: 'The program, as it calls itself' }),
  address: z.string().nullable().meta({ description: 'Where it was first used from' }),
  derived_from: uuid.nullable().meta({ description: 'The session whose end ends this one too' }),
  signed_in_at: isoTime.nullable().meta({ description: 'The sign-in that it was derived from' }),
  created_at: isoTime,
  last_used_at: isoTime.meta({ description: 'Within a minute' }),
  expires_at: isoTime,
};
const memberEntry = z.object(members).meta({ id: 'MemberSession' });
const entry = z
  .object({ ...members, current: z.boolean().meta({ description: 'Whether it authenticates this request' }) })
  .meta({ id: 'Session' });
type MemberEntry = z.infer<typeof memberEntry>;

// For the API reference.
const BROWSER: MemberEntry = {
  id: '0195d9a2-7f00-4000-8000-000000000007',
  kind: 'browser',
  client: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
  address: '192.0.2.7',
  derived_from: null,
  signed_in_at: '2026-03-01T12:00:00.000Z',
  created_at: '2026-03-01T12:00:01.000Z',
  last_used_at: '2026-03-01T12:40:00.000Z',
  expires_at: '2026-03-01T13:00:00.000Z',
};
const COMMAND_LINE: MemberEntry = {
  ...BROWSER,
  ...{ id: '0195d9a2-7f00-4000-8000-000000000008', kind: 'command_line', client: 'node', derived_from: BROWSER.id },
  ...{ created_at: '2026-03-01T12:10:00.000Z', expires_at: '2026-03-01T13:10:00.000Z' },
};

/** A page of the user's valid sessions, with their token ids. */
async function pageOf<Entry>(
  { clock, store, userSessions }: Pick<Services, 'clock' | 'store' | 'userSessions'>,
  userId: Uuid,
  input: { limit: number; cursor?: string | undefined },
  toEntry: (entry: MemberEntry, tokenId: string) => Entry,
): Promise<Outcome<Answer<{ sessions: Entry[]; count: number | null; next_cursor: string | null }>>> {
  const listing = { route: 'sessions', filters: { of: userId } };
  const start = startOf(listing, input.cursor);
  if (!start.ok) return start;
  // Also the use by this request.
  await userSessions.flush();
  const page = await store.userSessions.list(userId, referenceOf(clock), input.limit, start.value);
  const ids = new Map(page.items.map(({ tokenId, id }) => [tokenId, id]));
  const sessions = page.items.map((session) => toEntry(entryOf(session, ids), session.tokenId));
  return done({
    body: { sessions, count: await page.count(), next_cursor: cursorAfter(listing, page) },
    cursors: cursorsIn(listing, page),
  });
}

function entryOf(session: UserSession, ids: ReadonlyMap<string, Uuid>): MemberEntry {
  const { id, kind, client, address, ancestors, signedInAt } = session;
  const origin = ancestors.find((ancestor) => ids.has(ancestor)) ?? '';
  return {
    ...{ id, kind, client, address },
    derived_from: ids.get(origin) ?? null,
    signed_in_at: signedInAt === null ? null : iso(signedInAt),
    created_at: iso(session.createdAt),
    last_used_at: iso(session.lastUsedAt),
    expires_at: iso(session.expiresAt),
  };
}

export const listSessions = operation({
  name: 'listSessions',
  summary: 'List your sessions, newest first: browsers, command lines and other tokens that are valid and were used',
  input: z.strictObject({ ...paging }),
  output: z.object({ sessions: z.array(entry), count: listCount, next_cursor: nextCursor }),
  role: 'none',
  scope: 'read:tenant',
  personOnly: true,
  changes: false,
  inSuspension: true,
  example: {
    output: {
      sessions: [
        { ...COMMAND_LINE, current: false },
        { ...BROWSER, current: true },
      ],
      count: 1,
      next_cursor: null,
    },
  },
  needs: ['clock', 'store', 'userSessions'],
  run: (services, { input, caller }) =>
    pageOf(services, caller.principal.id, input, (entry, tokenId) => ({
      ...entry,
      current: tokenId === caller.token?.id,
    })),
});

export const listMemberSessions = operation({
  name: 'listMemberSessions',
  summary: 'List the sessions of a member, newest first',
  input: z.strictObject({ userId: idOf('member'), ...paging }),
  output: z.object({ sessions: z.array(memberEntry), count: listCount, next_cursor: nextCursor }),
  role: 'admin',
  scope: 'read:tenant',
  personOnly: true,
  changes: false,
  example: { output: { sessions: [COMMAND_LINE, BROWSER], count: 1, next_cursor: null } },
  needs: ['clock', 'store', 'userSessions'],
  async run(services, { input, caller }) {
    const { store, clock } = services;
    const member = await store.members.find(tenantOf(caller), input.userId, clock.now());
    if (member?.status !== 'active') return notFound('member');
    return pageOf(services, member.id, input, (entry) => entry);
  },
});

const subjectOf = (userId: Uuid): string => `user:${userId}`;

/** Clears the cookies of a browser whose session has ended; nothing for other callers. */
const clearedCookies = ({ cookie }: Caller): readonly CookieChange[] =>
  cookie ? (['session', 'csrf'] as const).map((name) => ({ name, value: null, until: null })) : [];

export const endSession = operation({
  name: 'endSession',
  summary: 'End a session and everything that was derived from it: your own, or as an admin a member’s',
  input: z.strictObject({ id: idOf('session') }),
  output: z.null(),
  role: 'none',
  scope: 'write:tenant',
  personOnly: true,
  changes: true,
  inMaintenance: true,
  inSuspension: true,
  refuses: ['FORBIDDEN_ROLE'],
  needs: ['clock', 'locks', 'store', 'userSessions'],
  async run(services, { input: { id }, caller }) {
    const { clock, store, userSessions } = services;
    const session = await store.userSessions.find(id, referenceOf(clock));
    if (session === null) return notFound('session');
    const { userId, tokenId, expiresAt } = session;
    const end = async (): Promise<Outcome<Answer<null>>> => {
      await userSessions.end({ id: tokenId, expiresAt });
      const cookies = tokenId === caller.token?.id ? clearedCookies(caller) : [];
      return done({ body: null, cookies, about: { subject: subjectOf(userId) } });
    };
    if (userId === caller.principal.id) return end();
    if (caller.tenantId === null) return notFound('session');
    return withMembersLock(services, caller, 'shared', async (actor) => {
      const member = await store.members.find(tenantOf(caller), userId, clock.now());
      if (member === null || !mayDecideOn(actor.role, 'none')) return notFound('session');
      return mayDecideOn(actor.role, member.role) ? end() : aboveOwnRole();
    });
  },
});

export const endAllSessions = operation({
  name: 'endAllSessions',
  summary:
    'Sign out everywhere: end all your sessions and every token of an earlier sign-in, also this one. API keys stay valid',
  input: z.strictObject({}),
  output: z.null(),
  role: 'none',
  scope: 'write:tenant',
  personOnly: true,
  changes: true,
  auditSubject: ({ caller }) => subjectOf(caller.principal.id),
  inMaintenance: true,
  inSuspension: true,
  needs: ['userSessions'],
  async run({ userSessions }, { caller }) {
    await userSessions.endAll(caller.principal.id);
    return done({ body: null, cookies: clearedCookies(caller) });
  },
});

export const endMemberSessions = operation({
  name: 'endMemberSessions',
  summary: 'Sign a member out everywhere: end all their sessions and every token of an earlier sign-in',
  input: z.strictObject({ userId: idOf('member') }),
  output: z.null(),
  role: 'admin',
  scope: 'write:tenant',
  personOnly: true,
  changes: true,
  inMaintenance: true,
  needs: ['clock', 'locks', 'store', 'userSessions'],
  run(services, { input: { userId }, caller }) {
    const { store, clock, userSessions } = services;
    return withMembersLock(services, caller, 'shared', async (actor) => {
      const member = await store.members.find(tenantOf(caller), userId, clock.now());
      if (member?.status !== 'active') return notFound('member');
      if (!mayDecideOn(actor.role, member.role)) return aboveOwnRole();
      await userSessions.endAll(userId);
      return done({ body: null, cookies: userId === caller.principal.id ? clearedCookies(caller) : [] });
    });
  },
});

const aboveOwnRole = () => refuse('FORBIDDEN_ROLE', 'You cannot end sessions of a role above your own.');

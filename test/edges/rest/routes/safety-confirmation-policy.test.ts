import { decodeJwt } from 'jose';
import { v7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { confirmers, type SafetyPolicy } from '../../../../src/domain/policy.ts';
import type { JsonObject } from '../../../../src/domain/values.ts';
import { approveConfirmation } from '../../../../src/operations/commands/confirmation-inbox.ts';
import { browserAt } from '../../../support/browser.ts';
import { fakeCredential, fakeVerifier } from '../../../support/fake-verifier.ts';
import type { CallResult, HttpService } from '../../../support/http-service.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

// Every combination of policy, principal and path: a command is sent exactly if the policy allows it.

let service: HttpService;
let mine: TestTenant;
let lock: string;
const credentials: Record<string, string> = {};

beforeAll(async () => {
  service = await startHttpServiceOnDatabase({ verifiers: [fakeVerifier] });
  mine = await makeTestTenant(service);
  lock = (await mine.register({ device_type: 'lock', room_id: mine.roomId })).device_id;
  await mine.call('POST', '/groups', { name: 'Doors', device_ids: [lock] });
  const idOf = async (token: string): Promise<string> =>
    (await service.call('GET', '/v1/auth/me', { token })).body.user.id;
  const requester = await idOf(mine.tokens.user);
  const second = await idOf(mine.tokens.admin);
  const { tenantId } = mine;
  Object.assign(credentials, {
    'the requester by token': mine.tokens.user,
    'the requester by cookie': fakeCredential(requester, { person: true }),
    'the requester’s own key': fakeCredential(requester, { key: 'aaaaaaaa', tenantId }),
    'the requester’s key with the scope': fakeCredential(requester, {
      key: 'aaaaaaab',
      tenantId,
      scopes: ['execute:commands'],
    }),
    'the requester by a token seen at /mcp': fakeCredential(requester),
    'another by token': mine.tokens.admin,
    'another by cookie': fakeCredential(second, { person: true }),
    'another’s key': fakeCredential(second, { key: 'bbbbbbbb', tenantId }),
    'another by a token seen at /mcp': fakeCredential(second),
    // A key never counts as a person, regardless of the verifier.
    'another’s key that calls itself a person': fakeCredential(second, { key: 'bbbbbbbc', tenantId, person: true }),
    'a viewer': mine.tokens.viewer,
    'a key that only reads': fakeCredential(second, { key: 'bbbbbbbd', tenantId, scopes: ['read:commands'] }),
    'a key for intents': fakeCredential(second, { key: 'bbbbbbbe', tenantId, scopes: ['execute:intents'] }),
    'somebody of another tenant': (await service.owner()).token,
    nobody: v7(),
  });
});
afterAll(() => service.close());

const people = [
  { who: 'the requester by token', isRequester: true, isPerson: true },
  { who: 'the requester by cookie', isRequester: true, isPerson: true },
  { who: 'the requester’s own key', isRequester: true, isPerson: false },
  { who: 'the requester’s key with the scope', isRequester: true, isPerson: false },
  { who: 'the requester by a token seen at /mcp', isRequester: true, isPerson: false },
  { who: 'another by token', isRequester: false, isPerson: true },
  { who: 'another by cookie', isRequester: false, isPerson: true },
  { who: 'another’s key', isRequester: false, isPerson: false },
  { who: 'another by a token seen at /mcp', isRequester: false, isPerson: false },
  { who: 'another’s key that calls itself a person', isRequester: false, isPerson: false },
] as const;

const allowed = (policy: SafetyPolicy['confirm_by'], isRequester: boolean, isPerson: boolean): boolean =>
  policy === 'requester' || (policy === 'person' ? isPerson : !isRequester);

/** `agent_confirm_by` is `person`. It does not hold for what an agent may do without a confirmation. */
const allowedForAgents = (who: string, road: string): boolean =>
  !who.endsWith('/mcp') || road === 'the token of a dry run of a normal action';

interface Waiting {
  command_id: string;
  dry_run_token: string;
}

/** Sends a request as the requesting user and returns the pending confirmation. */
const sendRequest = async (path: string, body: JsonObject): Promise<Waiting> => {
  const answer = await mine.call('POST', path, body, { token: mine.tokens.user });
  const waiting = answer.body.results?.[0] ?? answer.body;
  if (waiting.status !== 'dry_run_required') throw new Error(JSON.stringify(answer.body));
  return waiting;
};

const byToken = ({ dry_run_token }: Waiting, token: string) =>
  mine.call('POST', `/device/${lock}/command/confirm`, { dry_run_token }, { token });
const byInbox = ({ command_id }: Waiting, token: string) =>
  mine.call('POST', `/confirmations/${command_id}/approve`, {}, { token });

const roads: Record<
  string,
  { request(): Promise<Waiting>; confirm(waiting: Waiting, token: string): Promise<CallResult> }
> = {
  'the token of a command': {
    request: () => sendRequest(`/device/${lock}/command`, { action: 'unlock' }),
    confirm: byToken,
  },
  'the token of a dry run of a normal action': {
    request: () => sendRequest(`/device/${lock}/command`, { action: 'lock', dry_run: true }),
    confirm: byToken,
  },
  'the token of a batch': {
    request: () => sendRequest('/devices/command', { device_ids: [lock], action: 'unlock' }),
    confirm: byToken,
  },
  'the token of a room command': {
    request: () => sendRequest(`/rooms/${mine.roomId}/command`, { action: 'unlock' }),
    confirm: byToken,
  },
  'the token of a group command': {
    request: () => sendRequest('/groups/doors/command', { action: 'unlock' }),
    confirm: byToken,
  },
  'the token of an intent': {
    request: () => sendRequest('/intent', { type: 'device.control', payload: { device_id: lock, action: 'unlock' } }),
    confirm: byToken,
  },
  'the inbox': {
    request: () => sendRequest(`/device/${lock}/command`, { action: 'unlock' }),
    confirm: byInbox,
  },
  'the inbox, for an intent': {
    request: () =>
      sendRequest('/intent', { type: 'room.control', payload: { room_id: mine.roomId, action: 'unlock' } }),
    confirm: byInbox,
  },
  'the inbox, with an Idempotency-Key': {
    request: () => sendRequest(`/device/${lock}/command`, { action: 'unlock' }),
    confirm: ({ command_id }, token) =>
      mine.call('POST', `/confirmations/${command_id}/approve`, {}, { token, headers: { 'idempotency-key': v7() } }),
  },
};

const statusOf = async (id: string) => (await mine.call('GET', `/commands/${id}`)).body.command.status;
const setConfirmers = async (confirm_by: SafetyPolicy['confirm_by']) =>
  expect((await setPolicy(mine, { confirm_by })).confirm_by).toBe(confirm_by);

describe.each(confirmers)('under %s', (policy) => {
  describe.each(Object.entries(roads))('%s', (road, { request, confirm }) => {
    it.each(people)('is allowed or refused for $who as the policy requires', async ({ who, isRequester, isPerson }) => {
      await setConfirmers(policy);
      const waiting = await request();
      const answer = await confirm(waiting, credentials[who] as string);
      if (allowed(policy, isRequester, isPerson) && allowedForAgents(who, road)) {
        expect([answer.status, answer.body.command_id]).toEqual([202, waiting.command_id]);
        expect(await statusOf(waiting.command_id)).toBe('dispatched');
        return;
      }
      expect([answer.status, answer.body.code]).toEqual([403, 'CONFIRMATION_FAILED']);
      expect(await statusOf(waiting.command_id)).toBe('awaiting_confirmation');
      // The attempt consumed nothing: an allowed user can still confirm.
      expect((await confirm(waiting, credentials['another by token'] as string)).status).toBe(202);
    });

    it.each([
      ['a viewer', 403, 'FORBIDDEN_ROLE'],
      ['a key that only reads', 403, 'INSUFFICIENT_SCOPE'],
      ['a key for intents', 403, 'INSUFFICIENT_SCOPE'],
      ['nobody', 401, 'UNAUTHENTICATED'],
    ] as const)('is refused to %s', async (who, status, code) => {
      await setConfirmers(policy);
      const waiting = await request();
      const answer = await confirm(waiting, credentials[who] as string);
      expect([answer.status, answer.body.code]).toEqual([status, code]);
      expect(await statusOf(waiting.command_id)).toBe('awaiting_confirmation');
    });

    it('is not found for users of another tenant', async () => {
      await setConfirmers(policy);
      const waiting = await request();
      const answer = await confirm(waiting, credentials['somebody of another tenant'] as string);
      expect([answer.status, answer.body.code]).toEqual([404, 'NOT_FOUND']);
      expect(await statusOf(waiting.command_id)).toBe('awaiting_confirmation');
    });
  });
});

describe('no other request leads to a dispatch', () => {
  const unlock = () => sendRequest(`/device/${lock}/command`, { action: 'unlock' });

  it('a token in a request for a command is an unknown field', async () => {
    const { dry_run_token, command_id } = await unlock();
    for (const more of [{ dry_run_token }, { token: dry_run_token }, { confirmed: true }, { command_id }]) {
      const answer = await mine.call('POST', `/device/${lock}/command`, { action: 'unlock', ...more });
      expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    }
    expect(await statusOf(command_id)).toBe('awaiting_confirmation');
  });

  it('a WebSocket ticket confirms nothing', async () => {
    await setConfirmers('requester');
    const waiting = await unlock();
    const ticket = await service.call('POST', '/ws/ticket', { token: mine.tokens.admin });
    expect((await byInbox(waiting, ticket.body.ticket)).status).toBe(401);
    expect((await byToken(waiting, ticket.body.ticket)).status).toBe(401);
  });

  it('a token from /mcp is not a person’s, for any claim of its verifier', async () => {
    await setConfirmers('person');
    const { command_id } = await unlock();
    const asking = { via: 'mcp', requestId: v7(), address: '127.0.0.1' };
    const caller = await service.identity.authenticate(credentials['another by cookie'] as string, asking);
    if (!caller.ok) throw new Error('not signed in');
    const request = { input: { command_id }, caller: caller.value, keyed: null };
    expect(await service.perform(approveConfirmation, request)).toMatchObject({
      ok: false,
      refusal: { code: 'CONFIRMATION_FAILED' },
    });
    expect(await statusOf(command_id)).toBe('awaiting_confirmation');
  });

  it('a stored response is withheld when the policy would refuse its request now', async () => {
    const headers = { 'idempotency-key': v7() };
    await setConfirmers('requester');
    const waiting = await unlock();
    const approve = (who: string) =>
      mine.call(
        'POST',
        `/confirmations/${waiting.command_id}/approve`,
        {},
        { token: credentials[who] as string, headers },
      );
    const key = 'the requester’s own key';
    const cookie = 'the requester by cookie';
    expect((await approve(key)).status).toBe(202);
    await setConfirmers('person');
    expect((await approve(key)).body.code).toBe('CONFIRMATION_FAILED');
    // An answer to a key is for this key alone.
    expect((await approve(cookie)).status).toBe(409);
    await setConfirmers('requester');
    expect((await approve(key)).headers.get('idempotent-replayed')).toBe('true');
    await setConfirmers('another_principal');
    expect((await approve(cookie)).body.code).toBe('CONFIRMATION_FAILED');
  });

  it('a stored response of a confirmation by token is withheld from a key when the policy requires a person', async () => {
    const headers = { 'idempotency-key': v7() };
    await setConfirmers('requester');
    const { dry_run_token } = await unlock();
    const confirm = (who: string) =>
      mine.call(
        'POST',
        `/device/${lock}/command/confirm`,
        { dry_run_token },
        { token: credentials[who] as string, headers },
      );
    expect((await confirm('the requester’s own key')).status).toBe(202);
    await setConfirmers('person');
    expect((await confirm('the requester’s own key')).body.code).toBe('CONFIRMATION_FAILED');
    expect((await confirm('the requester by token')).status).toBe(409);
    await setConfirmers('requester');
    expect((await confirm('the requester’s own key')).headers.get('idempotent-replayed')).toBe('true');
  });

  it('the policy at the time of the confirmation decides, not the one at the request', async () => {
    await setConfirmers('requester');
    const waiting = await unlock();
    await setConfirmers('person');
    expect((await byToken(waiting, credentials['the requester’s own key'] as string)).body.code).toBe(
      'CONFIRMATION_FAILED',
    );
    expect((await byInbox(waiting, credentials['another’s key'] as string)).body.code).toBe('CONFIRMATION_FAILED');
    await setConfirmers('requester');
    expect((await byToken(waiting, credentials['the requester’s own key'] as string)).status).toBe(202);
  });
});

it('a policy that changes during the lookup of a token applies', async () => {
  await setConfirmers('requester');
  const waiting = await sendRequest(`/device/${lock}/command`, { action: 'unlock' });
  const { commands } = service.services.store;
  const { byToken: find } = commands;
  commands.byToken = async (...given) => {
    await setConfirmers('another_principal');
    return find(...given);
  };
  const answer = await byToken(waiting, mine.tokens.user);
  commands.byToken = find;
  expect([answer.status, answer.body.code]).toEqual([403, 'CONFIRMATION_FAILED']);
});

describe('credentials as users and programs obtain them', () => {
  /** All kinds of credentials of one user; each confirms a command by its inbox entry. */
  async function allOf(token: string): Promise<Record<string, (path: string) => Promise<number>>> {
    const made = await service.call('POST', '/v1/auth/api-keys', { token, body: { name: 'agent', scopes: ['all'] } });
    const browser = browserAt(service.url);
    await browser.request('POST', '/v1/auth/session', { body: { token } });
    const csrf = (await browser.request('GET', '/v1/auth/csrf')).body.csrf_token;
    const { sub } = decodeJwt(token);
    const seen = await service.token(sub as string);
    const marked = await service.identity.authenticate(seen, { via: 'mcp', requestId: v7(), address: null });
    if (!marked.ok) throw new Error('not signed in');
    const approve = (credential: string) => async (path: string) =>
      (await service.call('POST', path, { token: credential })).status;
    return {
      token: approve(token),
      cookie: async (path) => (await browser.request('POST', path, { headers: { 'x-csrf-token': csrf } })).status,
      key: approve(made.body.key),
      'token seen at /mcp': approve(seen),
    };
  }

  it.each([
    ['requester', { requester: [202, 202, 202, 403], another: [202, 202, 202, 403] }],
    ['another_principal', { requester: [403, 403, 403, 403], another: [202, 202, 202, 403] }],
    ['person', { requester: [202, 202, 403, 403], another: [202, 202, 403, 403] }],
  ] as const)('under %s', async (policy, expected) => {
    await setConfirmers(policy);
    const kinds = { requester: await allOf(mine.tokens.user), another: await allOf(mine.tokens.admin) };
    for (const who of ['requester', 'another'] as const) {
      const answered: number[] = [];
      for (const approve of Object.values(kinds[who])) {
        const { command_id } = await sendRequest(`/device/${lock}/command`, { action: 'unlock' });
        answered.push(await approve(`/v1/confirmations/${command_id}/approve`));
      }
      expect(answered, who).toEqual(expected[who]);
    }
  });

  it('a token that was presented at /mcp loosens no policy, and neither does a key', async () => {
    await setConfirmers('person');
    const made = await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes: ['all'] });
    const seen = await service.token(decodeJwt(mine.tokens.owner).sub as string);
    await service.identity.authenticate(seen, { via: 'mcp', requestId: v7(), address: null });
    for (const token of [made.body.key, seen]) {
      const answer = await mine.call('PATCH', '/tenant/policy', { confirm_by: 'requester' }, { token });
      expect([answer.status, answer.body.code]).toEqual([403, 'FORBIDDEN']);
    }
  });
});

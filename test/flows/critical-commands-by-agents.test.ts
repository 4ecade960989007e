import { randomUUID } from 'node:crypto';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { bearerRequester, cookieRequester, createApiKey, type Requester } from '../support/access-fixture.ts';
import { eventually } from '../support/clock.ts';
import { connect, register } from '../support/device.ts';
import { callTool, mcpClient } from '../support/mcp.ts';
import { expectReached, fc, runs, seed } from '../support/properties.ts';
import { type ApiClient, type ApiResponse, startService, type TestService } from '../support/service.ts';

// Under `confirm_by: person` no program makes a critical command reach a device: devices over MQTT, requests over REST,
// GraphQL and MCP, with every credential that a program can have.

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
/** Keys with all scopes, a token that was presented at /mcp, and a browser session that was opened with it before. */
let programs: Requester[];
/** MCP sessions of a key; the second one accepts every question. */
let agents: Client[];
let home: Home;
const devices: Device[] = [];

beforeAll(async () => {
  at = await startService();
  owner = await at.owner('ada');
  expect((await owner.patch('/v1/tenant/policy', { confirm_by: 'person' })).status).toBe(200);
  const all = (await createApiKey(owner)).key;
  const wild = (await createApiKey(owner, { scopes: ['*:*'] })).key;
  const token = await at.token('ada', { email: 'ada@example.com' });
  const session = await cookieRequester(at, 'a browser session of a token that was presented at /mcp later', token);
  agents = [await mcpClient(at.url, all), await mcpClient(at.url, wild, { capabilities: { elicitation: {} } })];
  agents[1]?.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { confirm: true } }));
  await (await mcpClient(at.url, token)).close();
  programs = [
    bearerRequester(at, 'a key with all scopes of the role', all),
    bearerRequester(at, 'a key with every scope', wild),
    bearerRequester(at, 'a token that was presented at /mcp', token),
    session,
  ];
});
afterEach(async () => {
  await Promise.all(devices.splice(0).map((device) => device.close(0)));
});
afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.close()));
  await at.stop();
});

const gate = (more: object = {}) => ({
  ...{ action: 'open_gate', safetyClass: 'CRITICAL' },
  paramSchema: { type: 'object', properties: { percent: { type: 'integer', minimum: 0, maximum: 50 } } },
  ...more,
});
const close = { action: 'close_gate' };
const wide = {
  paramSchema: { type: 'object', properties: { percent: { type: 'integer' }, force: { type: 'boolean' } } },
};
/** Names that are critical for one of the devices, in several spellings. */
const critical = ['open_gate', 'Open-Gate', 'openGate', 'unlock', 'Unlock', 'un_lock', 'reboot', 'factory_reset'];
const normal = ['close_gate', 'lock'];

interface Home {
  gate: string;
  lock: string;
  roomId: string;
  slug: string;
  /** Actions that reached a device, in order. */
  done: string[];
}

/** A gate whose owner raised `open_gate`, and a lock with the registry's manifest, both online. */
async function furnish(): Promise<Home> {
  const room = await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: 'Yard' });
  const done: string[] = [];
  const online = async (device_type: string, manifest?: object): Promise<string> => {
    const registered = await register(owner, { device_type, room_id: room.body.id });
    const path = `/v1/devices/${registered.device_id}/manifest`;
    if (manifest !== undefined) expect((await owner.post(path, manifest)).status).toBe(201);
    const perform = (action: string) => async () => {
      done.push(action);
      return action === 'lock' ? { state: { locked: true } } : {};
    };
    const handlers = [...critical, ...normal].map((action) => [action, perform(action)] as const);
    devices.push(await connect(registered, { state: {}, commands: Object.fromEntries(handlers) }));
    return registered.device_id as string;
  };
  const made: Home = {
    gate: await online('esp32', { capabilities: [gate(), close] }),
    lock: await online('door_lock'),
    ...{ roomId: room.body.id as string, slug: '', done },
  };
  const group = await owner.post('/v1/groups', {
    ...{ name: `Doors ${randomUUID()}`, description: 'All', device_ids: [made.gate, made.lock] },
  });
  return { ...made, slug: group.body.slug };
}

/** Awaits the end of all that the programs started, then two commands of the owner that follow on the same channels. */
async function settle(): Promise<void> {
  await eventually(async () => {
    const { body } = await owner.get('/v1/plans?limit=200');
    return body.plans.every(({ status }: { status: string }) => !/^(pending|running|rolling_back)$/.test(status));
  });
  const last = [
    [home.gate, 'close_gate'],
    [home.lock, 'lock'],
  ] as const;
  for (const [device, action] of last) {
    const before = home.done.filter((one) => one === action).length;
    expect((await owner.post(`/v1/device/${device}/command`, { action })).status).toBe(202);
    await eventually(() => home.done.filter((one) => one === action).length > before);
  }
}

const reached = () => home.done.filter((action) => !normal.includes(action));
const send = (program: Requester | undefined, method: string, path: string, body?: unknown) =>
  (program as Requester).request(method, `/v1${path}`, body);

describe('a program that changes manifests', () => {
  it('opens nothing, alone or with what a person has requested and not confirmed', async () => {
    home = await furnish();
    const path = `/devices/${home.gate}/manifest`;
    const requested = await owner.put(`/v1${path}`, { version: 1, capabilities: [{ action: 'open_gate' }, close] });
    expect(requested.body.code).toBe('DRY_RUN_REQUIRED');
    for (const program of programs) {
      const opened = await send(program, 'POST', `/device/${home.gate}/command`, { action: 'open_gate' });
      expect(opened.body.code).toBe('DRY_RUN_REQUIRED');
      const { dry_run_token, command_id } = opened.body;
      const attempts: [string, string, object?][] = [
        ['POST', `/device/${home.gate}/command/confirm`, { dry_run_token }],
        ['POST', `/confirmations/${command_id}/approve`],
        ['PATCH', '/tenant/policy', { confirm_by: 'requester' }],
        ['PUT', path, { version: 1, capabilities: [{ action: 'open_gate' }, close] }],
        ['PUT', path, { version: 1, capabilities: [close] }],
        ['PUT', path, { version: 1, capabilities: [gate(), close, { action: 'Open-Gate' }] }],
        ['PUT', path, { version: 1, capabilities: [gate(wide), close] }],
        ['POST', path, { capabilities: [{ action: 'open_gate' }] }],
        [
          'POST',
          `/change-requests/${requested.body.change_id}/confirm`,
          { dry_run_token: requested.body.dry_run_token },
        ],
        ['POST', `/change-requests/${requested.body.change_id}/approve`],
      ];
      for (const [method, route, body] of attempts)
        expect([program.name, route, (await send(program, method, route, body)).status]).toEqual([
          program.name,
          route,
          403,
        ]);
    }
    expect((await owner.get(`/v1${path}`)).body.version).toBe(1);
    await settle();
    expect(reached()).toEqual([]);
  });

  it('opens the gate only after a person has confirmed the lower class', async () => {
    home = await furnish();
    const path = `/v1/devices/${home.gate}/manifest`;
    const lower = { version: 1, capabilities: [{ action: 'open_gate' }, close] };
    const { change_id, dry_run_token } = (await owner.put(path, lower)).body;
    expect((await owner.post(`/v1/change-requests/${change_id}/confirm`, { dry_run_token })).status).toBe(200);
    const opened = await send(programs[0], 'POST', `/device/${home.gate}/command`, { action: 'open_gate' });
    expect(opened.status).toBe(202);
    await eventually(() => home.done.includes('open_gate'));
  });
});

/** The ids and tokens that the programs have seen, and try. */
interface Seen {
  commands: string[];
  changes: string[];
  tokens: string[];
}
const collect = (seen: Seen, body: unknown): void => {
  const text = JSON.stringify(body) ?? '';
  const all = (name: string) =>
    [...text.matchAll(new RegExp(`"${name}":"([0-9a-f-]{36})"`, 'g'))].map(([, id]) => `${id}`);
  seen.commands.push(...all('command_id'), ...all('commandId'));
  seen.changes.push(...all('change_id'), ...all('changeId'));
  seen.tokens.push(...all('dry_run_token'), ...all('dryRunToken'));
};

const index = fc.nat(40);
const action = fc.constantFrom(...critical);
const device = fc.constantFrom<'gate' | 'lock'>('gate', 'lock');
const params = fc.constantFrom({}, {}, { percent: 40 }, { percent: 100, force: true });
const manifest = fc.subarray(
  [
    ...[gate(), gate(wide), close, { action: 'open_gate' }, { action: 'Open-Gate' }, { action: 'openGate', ...wide }],
    ...[{ action: 'unlock' }, { action: 'Unlock', safetyClass: 'NORMAL' }, { action: 'lock' }, { action: 'reboot' }],
  ],
  { minLength: 0, maxLength: 6 },
);
const pick = (from: readonly string[], n: number): string => from[n % Math.max(1, from.length)] ?? randomUUID();

type Step = (program: Requester, seen: Seen) => Promise<unknown>;
/** The requests of the sequence that runs, for the message of a failure. */
let trace: string[] = [];
const traced = (...request: unknown[]): void => void trace.push(request.map((one) => JSON.stringify(one)).join(' '));
const rest = (method: string, path: (seen: Seen) => string, body: (seen: Seen) => unknown): Step => {
  return async (program, seen) => {
    const request = [method, path(seen), body(seen)] as const;
    const answer = await send(program, ...request);
    traced(program.name, ...request, answer.status);
    return answer.body;
  };
};
const graphql = (field: string, type: string, input: (seen: Seen) => object, fragment: string): Step => {
  const query = `mutation($input: ${type}!) { ${field}(input: $input) { __typename ${fragment} ... on Refused { code } } }`;
  return async (program, seen) => {
    const variables = { input: input(seen) };
    const { body } = await program.request('POST', '/graphql', { query, variables });
    traced(program.name, field, variables, body);
    return body;
  };
};
const tool = (agent: number, name: string, args: (seen: Seen) => object): Step => {
  return async (_, seen) => {
    const given = args(seen);
    const { structuredContent } = await callTool(agents[agent] as Client, name, given);
    traced('mcp', agent, name, given, structuredContent);
    return structuredContent;
  };
};
const planOf = (id: string, one: string, compensation: string | null) => ({
  steps: [
    {
      ...{ id: 'one', device_id: id, action: one },
      ...(compensation !== null && { compensation: { action: compensation, params: {} } }),
    },
  ],
});

const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(device, action, params, fc.boolean()).map(([of, action, params, dry_run]) =>
    rest(
      'POST',
      () => `/device/${home[of]}/command`,
      () => ({ action, params, dry_run }),
    ),
  ),
  fc.tuple(fc.constantFrom('PUT', 'POST'), device, manifest, fc.nat(3)).map(([method, of, capabilities, version]) =>
    rest(
      method,
      () => `/devices/${home[of]}/manifest`,
      () => ({ ...(method === 'PUT' && { version }), capabilities }),
    ),
  ),
  fc.tuple(device, index).map(([of, n]) =>
    rest(
      'POST',
      () => `/device/${home[of]}/command/confirm`,
      ({ tokens }) => ({ dry_run_token: pick(tokens, n) }),
    ),
  ),
  index.map((n) =>
    rest(
      'POST',
      ({ commands }) => `/confirmations/${pick(commands, n)}/approve`,
      () => undefined,
    ),
  ),
  index.map((n) =>
    rest(
      'POST',
      ({ changes }) => `/change-requests/${pick(changes, n)}/approve`,
      () => undefined,
    ),
  ),
  fc
    .tuple(index, index)
    .map(([n, m]) =>
      rest(
        ...(['POST', ({ changes }: Seen) => `/change-requests/${pick(changes, n)}/confirm`] as const),
        ({ tokens }) => ({ dry_run_token: pick(tokens, m) }),
      ),
    ),
  fc.constantFrom('requester', 'another_principal').map((confirm_by) =>
    rest(
      'PATCH',
      () => '/tenant/policy',
      () => ({ confirm_by }),
    ),
  ),
  fc.tuple(action, fc.constantFrom('devices', 'room', 'group')).map(([action, target]) =>
    rest(
      'POST',
      () =>
        ({ devices: '/devices/command', room: `/rooms/${home.roomId}/command`, group: `/groups/${home.slug}/command` })[
          target
        ] as string,
      () => ({ action, ...(target === 'devices' && { device_ids: [home.gate, home.lock] }) }),
    ),
  ),
  fc.tuple(device, action, fc.constantFrom('device', 'room', 'group', 'plan')).map(([of, action, kind]) =>
    rest(
      'POST',
      () => '/intent',
      () => {
        if (kind === 'device') return { type: 'device.control', payload: { device_id: home[of], action } };
        if (kind === 'room') return { type: 'room.control', payload: { room_id: home.roomId, action } };
        if (kind === 'group') return { type: 'group.control', payload: { slug: home.slug, action } };
        return { type: 'plan.execute', payload: { plan: planOf(home[of], action, null) } };
      },
    ),
  ),
  fc.tuple(device, fc.constantFrom(...critical, 'close_gate', 'lock'), fc.option(action)).map(([of, one, undo]) =>
    rest(
      'POST',
      () => '/plans',
      () => planOf(home[of], one, undo),
    ),
  ),
  fc.constantFrom({ name: 'another', scopes: ['all'] }, { name: 'another', scopes: ['*:*'] }).map((body) =>
    rest(
      'POST',
      () => '/auth/api-keys',
      () => body,
    ),
  ),
  fc.constant(
    rest(
      'POST',
      () => '/tenant/members',
      () => ({ email: 'agent@example.com', role: 'owner' }),
    ),
  ),
  fc.constant(
    rest(
      'GET',
      () => '/confirmations',
      () => undefined,
    ),
  ),
  fc.constant(
    rest(
      'GET',
      () => '/change-requests',
      () => undefined,
    ),
  ),
  fc
    .tuple(device, manifest, fc.nat(3))
    .map(([of, capabilities, version]) =>
      graphql('updateManifest', 'UpdateManifestInput', () => ({ deviceId: home[of], version, capabilities }), ''),
    ),
  fc
    .tuple(device, index)
    .map(([of, n]) =>
      graphql(
        ...(['confirmCommand', 'ConfirmCommandInput'] as const),
        ({ tokens }) => ({ deviceId: home[of], dryRunToken: pick(tokens, n) }),
        '... on Dispatched { commandId }',
      ),
    ),
  index.map((n) =>
    graphql('approveChange', 'ApproveChangeInput', ({ changes }) => ({ changeId: pick(changes, n) }), ''),
  ),
  fc
    .tuple(fc.nat(1), device, action, params)
    .map(([agent, of, action, params]) =>
      tool(agent, 'execute_proto_command', () => ({ target_type: 'device', target_id: home[of], action, params })),
    ),
  fc
    .tuple(fc.nat(1), action)
    .map(([agent, action]) =>
      tool(agent, 'execute_proto_command', () => ({ target_type: 'group', target_id: home.slug, action })),
    ),
  fc
    .tuple(fc.nat(1), index)
    .map(([agent, n]) => tool(agent, 'confirm_proto_command', ({ tokens }) => ({ dry_run_token: pick(tokens, n) }))),
);

/** How often the sequences came to their cases. */
const counts = { tokens: 0, changes: 0, steps: 0 };

describe('no sequence of requests by programs', () => {
  // In parts, so that each ends well within the time limit.
  it.each([1, 2, 3, 4, 5, 6, 7, 8])('makes a critical command reach a device, part %i', async (part) => {
    home = await furnish();
    const version = async () => (await owner.get(`/v1/devices/${home.gate}/manifest`)).body.version;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(3), steps), { minLength: 4, maxLength: 16 }), async (sequence) => {
        const seen: Seen = { commands: [], changes: [], tokens: [] };
        trace = [];
        // A person has requested these, and the programs know the tokens.
        const [weaker, open] = await requestByPerson();
        collect(seen, weaker.body);
        collect(seen, open.body);
        for (const [n, step] of sequence) collect(seen, await step(programs[n] as Requester, seen));
        await settle();
        expect(reached(), trace.join('\n')).toEqual([]);
        expect([await version(), (await owner.get('/v1/tenant/policy')).body.policy.confirm_by]).toEqual([1, 'person']);
        await owner.post(`/v1/change-requests/${weaker.body.change_id}/refuse`);
        counts.tokens += seen.tokens.length;
        counts.changes += seen.changes.length;
        counts.steps += sequence.length;
      }),
      // Without shrinking, which would take longer than the test may: the counterexample is short enough.
      { ...runs(4), seed: seed + part, endOnFailure: true },
    );
  });

  it('tried enough', () => {
    expectReached(() => {
      expect(counts.steps).toBeGreaterThan(150);
      expect(counts.tokens).toBeGreaterThan(60);
      expect(counts.changes).toBeGreaterThan(20);
    });
  });
});

/** A weaker manifest of the gate, and a critical command: neither is confirmed. */
const requestByPerson = (): Promise<[ApiResponse, ApiResponse]> => {
  const person: ApiClient = owner;
  return Promise.all([
    person.put(`/v1/devices/${home.gate}/manifest`, { version: 1, capabilities: [{ action: 'open_gate' }, close] }),
    person.post(`/v1/device/${home.gate}/command`, { action: 'open_gate' }),
  ]);
};

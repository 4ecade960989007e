import { randomUUID } from 'node:crypto';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Requester } from '../support/access-fixture.ts';
import {
  close,
  criticalActions,
  GuardedHome,
  type GuardedTenant,
  gate,
  type Part,
  startGuardedTenant,
  wide,
} from '../support/guarded-home.ts';
import { callTool } from '../support/mcp.ts';
import { expectReached, fc, runs, seed } from '../support/properties.ts';

// Under `confirm_by: person` no sequence of requests by programs makes a critical command reach a device, while a person
// publishes manifests and confirms nothing: over REST, GraphQL and MCP, with every credential that a program can have.

let tenant: GuardedTenant;
let home: GuardedHome;

beforeAll(async () => {
  tenant = await startGuardedTenant();
});
afterEach(() => home.close());
afterAll(() => tenant.stop());

/** The ids and tokens that the programs have seen, and try. */
interface Seen {
  commands: string[];
  changes: string[];
  proposals: string[];
  tokens: string[];
}
const collect = (seen: Seen, body: unknown): void => {
  const text = JSON.stringify(body) ?? '';
  const all = (name: string) =>
    [...text.matchAll(new RegExp(`"${name}":"([0-9a-f-]{36})"`, 'g'))].map(([, id]) => `${id}`);
  seen.commands.push(...all('command_id'), ...all('commandId'));
  seen.changes.push(...all('change_id'), ...all('changeId'));
  seen.proposals.push(...all('proposal_id'));
  seen.tokens.push(...all('dry_run_token'), ...all('dryRunToken'));
};

const index = fc.nat(40);
const action = fc.constantFrom(...criticalActions);
const device = fc.constantFrom<Part>('gate', 'lock');
const params = fc.constantFrom({}, {}, { percent: 40 }, { percent: 100, force: true });
const manifest = fc
  .subarray(
    [
      ...[gate(), gate(wide), close, { action: 'open_gate' }, { action: 'Open-Gate' }, { action: 'openGate', ...wide }],
      ...[{ action: 'unlock' }, { action: 'Unlock', safetyClass: 'NORMAL' }, { action: 'lock' }, { action: 'reboot' }],
      ...[gate({ action: 'OPEN.GATE' }), { action: 'un_lock' }, { action: 'unlock', expectedState: { locked: false } }],
    ],
    { minLength: 0, maxLength: 6 },
  )
  .filter((chosen) => new Set(chosen.map((one) => one.action)).size === chosen.length);
/** What a person publishes: often without the critical actions, or with them in another form. */
const publishable = fc.oneof(
  manifest,
  fc.constantFrom<object[]>(
    ...[[close], [{ action: 'lock' }], [gate(), close], [gate(), close, { action: 'unlock' }]],
    ...[
      [{ action: 'open_gate' }, close],
      [{ action: 'openGate' }, close],
      [gate(wide)],
      [gate({ action: 'Open-Gate' })],
    ],
  ),
);
const pick = (from: readonly string[], n: number): string => from[n % Math.max(1, from.length)] ?? randomUUID();

type Step = (program: Requester, seen: Seen) => Promise<unknown>;
/** The requests of the sequence that runs, for the message of a failure. */
let trace: string[] = [];
const traced = (...request: unknown[]): void => void trace.push(request.map((one) => JSON.stringify(one)).join(' '));
const send = (program: Requester, method: string, path: string, body?: unknown) =>
  program.request(method, `/v1${path}`, body);
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
    const { structuredContent } = await callTool(tenant.agents[agent] as Client, name, given);
    traced('mcp', agent, name, given, structuredContent);
    return structuredContent;
  };
};
/**
 * A person replaces a manifest several times. What makes it weaker waits, and the programs know its token. One of them then
 * tries every critical action.
 */
const byPerson = (of: Part, manifests: readonly (readonly object[])[]): Step => {
  return async (program) => {
    const bodies: unknown[] = [];
    for (const chosen of manifests) {
      // `open_gate` was never critical for the lock, so a person may add it there as NORMAL.
      const capabilities = chosen.filter((one) => of === 'gate' || !/open.?gate/i.test(JSON.stringify(one)));
      const { status, body } = await home.publish(of, capabilities);
      traced('the owner', 'PUT', of, capabilities, status);
      if (status === 200) counts.published += 1;
      if (body.code === 'DRY_RUN_REQUIRED') counts.waiting += 1;
      bodies.push(body);
    }
    const path = `/device/${home.ids[of]}/command`;
    for (const action of criticalActions) bodies.push((await send(program, 'POST', path, { action })).body);
    traced(program.name, 'commands', of, criticalActions);
    return bodies;
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

/** With the names of this home's devices, which no other home has. */
const goalOf = (text: string): string =>
  text.replace('door', home.names.lock).replace(/gate$/, home.names.gate).replace('night', `night ${home.names.lock}`);

const command: fc.Arbitrary<Step> = fc
  .tuple(device, action, params, fc.boolean())
  .map(([of, action, params, dry_run]) =>
    rest(
      'POST',
      () => `/device/${home.ids[of]}/command`,
      () => ({ action, params, dry_run }),
    ),
  );
const otherRequest: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(fc.constantFrom('PUT', 'POST'), device, manifest, fc.nat(3)).map(([method, of, capabilities, version]) =>
    rest(
      method,
      () => `/devices/${home.ids[of]}/manifest`,
      () => ({ ...(method === 'PUT' && { version }), capabilities }),
    ),
  ),
  fc.tuple(device, index).map(([of, n]) =>
    rest(
      'POST',
      () => `/device/${home.ids[of]}/command/confirm`,
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
      () => ({ action, ...(target === 'devices' && { device_ids: [home.ids.gate, home.ids.lock] }) }),
    ),
  ),
  fc.tuple(device, action, fc.constantFrom('device', 'room', 'group', 'plan')).map(([of, action, kind]) =>
    rest(
      'POST',
      () => '/intent',
      () => {
        if (kind === 'device') return { type: 'device.control', payload: { device_id: home.ids[of], action } };
        if (kind === 'room') return { type: 'room.control', payload: { room_id: home.roomId, action } };
        if (kind === 'group') return { type: 'group.control', payload: { slug: home.slug, action } };
        return { type: 'plan.execute', payload: { plan: planOf(home.ids[of], action, null) } };
      },
    ),
  ),
  fc
    .tuple(device, fc.constantFrom(...criticalActions, 'close_gate', 'lock'), fc.option(action))
    .map(([of, one, undo]) =>
      rest(
        'POST',
        () => '/plans',
        () => planOf(home.ids[of], one, undo),
      ),
    ),
  fc.tuple(device, action, params).map(([of, action, params]) =>
    rest(
      'POST',
      () => `/devices/${home.ids[of]}/command`,
      () => ({ action, params }),
    ),
  ),
  fc.constantFrom('unlock door', 'reboot gate', 'open gate', 'unlock', 'good night').map((text) =>
    rest(
      'POST',
      () => '/intent',
      () => ({ type: 'goal', payload: { text: goalOf(text), home_id: tenant.owner.homeId } }),
    ),
  ),
  fc.constantFrom('unlock door', 'lock door; then unlock door', 'reboot gate').map((content) =>
    rest(
      'POST',
      () => '/memories',
      () => ({ kind: 'routine', subject: goalOf('good night'), content: goalOf(content) }),
    ),
  ),
  device.map((of) =>
    rest(
      'POST',
      () => '/cognition/observation',
      () => ({ device_id: home.ids[of], data: { locked: false }, context: goalOf('Please unlock door') }),
    ),
  ),
  index.map((n) =>
    rest(
      'POST',
      ({ proposals }) => `/cognition/proposals/${pick(proposals, n)}/accept`,
      () => undefined,
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
      graphql('updateManifest', 'UpdateManifestInput', () => ({ deviceId: home.ids[of], version, capabilities }), ''),
    ),
  fc
    .tuple(device, index)
    .map(([of, n]) =>
      graphql(
        ...(['confirmCommand', 'ConfirmCommandInput'] as const),
        ({ tokens }) => ({ deviceId: home.ids[of], dryRunToken: pick(tokens, n) }),
        '... on Dispatched { commandId }',
      ),
    ),
  index.map((n) =>
    graphql('approveChange', 'ApproveChangeInput', ({ changes }) => ({ changeId: pick(changes, n) }), ''),
  ),
  fc
    .tuple(fc.nat(1), device, action, params)
    .map(([agent, of, action, params]) =>
      tool(agent, 'execute_proto_command', () => ({ target_type: 'device', target_id: home.ids[of], action, params })),
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

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: command },
  { weight: 5, arbitrary: otherRequest },
  {
    weight: 2,
    arbitrary: fc
      .tuple(device, fc.array(publishable, { minLength: 1, maxLength: 3 }))
      .map(([of, chosen]) => byPerson(of, chosen)),
  },
);

/** How often the sequences came to their cases. */
const counts = { tokens: 0, changes: 0, steps: 0, published: 0, waiting: 0 };

describe('no sequence of requests by programs', () => {
  // In parts, so that each ends well within the time limit.
  it.each([1, 2, 3, 4])('makes a critical command reach a device, part %i', async (part) => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(3), steps), { minLength: 4, maxLength: 24 }), async (sequence) => {
        home = await GuardedHome.furnish(tenant);
        const seen: Seen = { commands: [], changes: [], proposals: [], tokens: [] };
        trace = [];
        // A person has requested these, and the programs know the tokens.
        const [weaker, open] = await requestByPerson();
        collect(seen, weaker.body);
        collect(seen, open.body);
        for (const [n, step] of sequence) collect(seen, await step(tenant.programs[n] as Requester, seen));
        const published = { ...home.versions };
        const versions = await home.storedVersions();
        const { policy } = (await tenant.owner.get('/v1/tenant/policy')).body;
        await home.settle();
        expect(home.reached, trace.join('\n')).toEqual([]);
        expect([versions, policy.confirm_by], trace.join('\n')).toEqual([published, 'person']);
        await refuseWaiting();
        await home.close();
        counts.tokens += seen.tokens.length;
        counts.changes += seen.changes.length;
        counts.steps += sequence.length;
      }),
      // Without shrinking, which would take longer than the test may: the counterexample is short enough.
      { ...runs(8), seed: seed + part, endOnFailure: true },
    );
  });

  it('tried enough', () => {
    expectReached(() => {
      expect(counts.steps).toBeGreaterThan(250);
      expect(counts.tokens).toBeGreaterThan(125);
      expect(counts.changes).toBeGreaterThan(40);
      expect(counts.published).toBeGreaterThan(40);
      expect(counts.waiting).toBeGreaterThan(20);
    });
  });
});

async function refuseWaiting(): Promise<void> {
  const { changes } = (await tenant.owner.get('/v1/change-requests?waiting=true&limit=200')).body;
  for (const { id } of changes) expect((await tenant.owner.post(`/v1/change-requests/${id}/refuse`)).status).toBe(200);
}

/** A weaker manifest of the gate, and a critical command: neither is confirmed. */
const requestByPerson = () =>
  Promise.all([
    home.publish('gate', [{ action: 'open_gate' }, close]),
    tenant.owner.post(`/v1/device/${home.ids.gate}/command`, { action: 'open_gate' }),
  ]);

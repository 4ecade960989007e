import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { connectAsync, type MqttClient } from 'mqtt';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import type { Log } from '../../src/domain/log.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { payloadHash } from '../../src/protocol/canonical.ts';
import { eventually } from '../support/clock.ts';
import { type Deployment, eachDeployment, oneDeployment } from '../support/deployment.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { callTool, mcpClient } from '../support/mcp.ts';
import { mqttPortOf } from '../support/raw-device.ts';
import { type ApiClient, type ApiResponse, makeApiClient, startService, type TestService } from '../support/service.ts';
import { freePorts, newOwner, startServiceProcess } from '../support/spawn-service.ts';
import { waitUntilAuthorized } from '../support/wait-until-authorized.ts';
import { sql } from '../support/write-oracle.ts';

/*
 * The values of `writeOnly` parameters, as text that occurs nowhere else, are searched for in everything that the service
 * stores, answers, sends and logs. Only their device gets them.
 */

const CANARY = '-canary-of-this-test';
const pins = { first: `PIN-7391${CANARY}`, second: `PIN-2846${CANARY}` };
const MASK = { write_only: true };

const pin = { type: 'string', minLength: 4, maxLength: 64, writeOnly: true };
const slot = { type: 'integer', minimum: 1, maximum: 10 };
const manifest = {
  capabilities: [
    {
      action: 'set_code',
      paramSchema: { type: 'object', properties: { slot, pin }, required: ['slot', 'pin'] },
      expectedState: { slot: { $param: 'slot' } },
    },
    {
      action: 'set_users',
      paramSchema: {
        type: 'object',
        properties: {
          users: {
            type: 'array',
            items: {
              type: 'object',
              properties: { name: { type: 'string' }, code: { type: 'string', writeOnly: true } },
            },
          },
        },
      },
    },
    {
      action: 'open_with_code',
      safetyClass: 'CRITICAL',
      paramSchema: { type: 'object', properties: { pin }, required: ['pin'] },
      expectedState: { open: true },
    },
    { action: 'jam' },
  ],
};

/** A text or bytes. */
interface Searchable {
  includes(text: string): boolean;
}

/** All rows of the database as text; of an embedded one, the bytes of its files. */
async function everythingStored({ databaseUrl, env }: Deployment): Promise<Searchable[]> {
  if (databaseUrl === null) return filesIn(`${env.DATA_DIR}/db`);
  const tables = await sql<{ name: string }>(
    databaseUrl,
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p', 'm') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')`,
  );
  expect(tables.length).toBeGreaterThan(20);
  const ofAll = tables.map(({ name }) => `select to_jsonb(t)::text as row from ${name} t`).join(' union all ');
  return (await sql<{ row: string }>(databaseUrl, ofAll)).map(({ row }) => row);
}

function filesIn(folder: string): Buffer[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).flatMap((name) => {
    const path = join(folder, name);
    try {
      return statSync(path).isFile() ? [readFileSync(path)] : [];
    } catch {
      return []; // Removed by the database in the meantime.
    }
  });
}

/** The common part of the values: as bytes in hex, as PostgreSQL shows them, and as base64 at each offset. */
const spellings = [
  CANARY,
  Buffer.from(CANARY).toString('hex'),
  ...[0, 1, 2].map((offset) =>
    Buffer.from('-'.repeat(offset) + CANARY)
      .toString('base64')
      .slice(4, 20),
  ),
];

function expectNoPin(texts: readonly Searchable[], where: string): void {
  for (const spelling of spellings) {
    expect(
      texts.some((text) => text.includes(spelling)),
      `${spelling} in ${where}`,
    ).toBe(false);
  }
}

/** The number of commands and plans with sealed parameters; null for an embedded database, which is locked. */
async function sealedRows({ databaseUrl }: Deployment): Promise<number | null> {
  if (databaseUrl === null) return null;
  const [row] = await sql<{ sealed: string }>(
    databaseUrl,
    `select count(*) as sealed from (select live::text as live from commands union all select live::text from plans) t
      where live ~ '"sealed(Params|Compensation)": ?"'`,
  );
  return Number(row?.sealed);
}

it.each(Object.values(pins))('%s would be found as text, as bytes in hex and in base64', (value) => {
  const bytes = (offset: number) => Buffer.from('x'.repeat(offset) + value);
  const found = [value, bytes(0).toString('hex'), ...[0, 1, 2].map((offset) => bytes(offset).toString('base64'))];
  for (const text of found) expect(() => expectNoPin([Buffer.from(text)], 'the text')).toThrow();
});

/** A command is followed on each store; a stop is tried on the embedded one, and other commands and plans on PostgreSQL. */
const PARTS = ['stop', 'ways'] as const;

eachDeployment('writeOnly parameters', (deployment) => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let keypad: ApiResponse['body'];
  let device: Device | null = null;
  const executed: { action: string; params: JsonObject }[] = [];
  const logged: string[] = [];
  const answers: string[] = [];
  const closing: (() => unknown)[] = [];
  const isMine = (part: (typeof PARTS)[number]): boolean => deployment.share(PARTS).includes(part);

  const keep = (fields: object, message: string): void =>
    void logged.push(`${message} ${inspect(fields, { depth: 20, maxStringLength: null, breakLength: Infinity })}`);
  const log: Log = { debug: keep, info: keep, warn: keep, error: keep };

  beforeAll(async () => {
    at = await startService(deployment().env, { log });
    owner = recorded(await at.owner('owner'));
  });
  beforeEach(async () => {
    keypad = await register(owner, { device_type: 'keypad' });
    expect((await owner.post(`/v1/devices/${keypad.device_id}/manifest`, manifest)).status).toBe(201);
  });
  afterEach(async () => {
    await device?.close(0);
    device = null;
    await Promise.all(closing.splice(0).map((close) => close()));
    executed.length = 0;
  });
  afterAll(() => at.stop());

  /** A client whose answers are searched. */
  function recorded<Client extends ApiClient>(client: Client): Client {
    const wrap =
      <Args extends unknown[]>(call: (...args: Args) => Promise<ApiResponse>) =>
      async (...args: Args) => {
        const answer = await call(...args);
        answers.push(JSON.stringify([answer.body, [...answer.headers]]));
        return answer;
      };
    const { get, post, put, patch, delete: remove } = client;
    return {
      ...client,
      ...{ get: wrap(get), post: wrap(post), put: wrap(put), patch: wrap(patch), delete: wrap(remove) },
    };
  }

  async function connectDevice(mqttUrl = at.service.mqttUrl()): Promise<void> {
    const act = (action: string, state: JsonObject) => (params: JsonObject) => {
      executed.push({ action, params });
      return { state: { ...state, ...(typeof params.slot === 'number' && { slot: params.slot }) } };
    };
    device = await connect(
      { ...keypad, mqtt_url: mqttUrl },
      {
        state: { open: false, slot: 0 },
        commands: {
          set_code: act('set_code', {}),
          set_users: act('set_users', {}),
          open_with_code: act('open_with_code', { open: true }),
          jam: () => {
            executed.push({ action: 'jam', params: {} });
            throw new Error('it is stuck');
          },
        },
      },
    );
    await eventually(
      async () => (await owner.get(`/v1/devices/${keypad.device_id}`)).body.device.state.open !== undefined,
    );
  }

  const commandPath = () => `/v1/device/${keypad.device_id}/command`;
  const send = (action: string, params: JsonObject, headers: Record<string, string> = {}) =>
    owner.post(commandPath(), { action, params, ttl_s: 300 }, headers);
  const graphql = async (query: string, variables: object = {}) =>
    (await owner.post('/graphql', { query, variables })).body.data;

  /** Asks every wire for what it shows of commands and plans. */
  async function readEverything(commandId: string): Promise<void> {
    const paths = [
      `/v1/commands/${commandId}`,
      `/v1/device/${keypad.device_id}/commands`,
      `/v1/actors/command/${commandId}`,
      `/v1/actors/command/${commandId}/journal`,
      '/v1/actors?kind=command',
      '/v1/confirmations',
      '/v1/plans',
      '/v1/audit',
      '/v1/audit/export?format=csv',
      `/v1/devices/${keypad.device_id}`,
      `/v1/devices/${keypad.device_id}/timeline`,
    ];
    for (const path of paths) expect([path, (await owner.get(path)).status]).toEqual([path, 200]);
    const shown = await graphql('query ($id: ID!) { command(id: $id) { id action params } }', { id: commandId });
    expect(shown.command.id).toBe(commandId);
    const agent = await mcpClient(at.url, await at.token('owner'));
    answers.push(JSON.stringify(await callTool(agent, 'get_command_status', { command_id: commandId })));
    await agent.close();
  }

  async function expectNoPinAnywhere(): Promise<void> {
    expectNoPin(await everythingStored(deployment()), 'the database');
    expectNoPin(answers, 'answers');
    expectNoPin(logged, 'the log');
  }

  /** Neither the values nor sealed forms of them are left. */
  async function expectDropped(): Promise<void> {
    expect(await sealedRows(deployment())).toBe(deployment().databaseUrl === null ? null : 0);
    await expectNoPinAnywhere();
  }

  async function listenEverywhere(): Promise<string[]> {
    const received: string[] = [];
    const events = 'state,presence,command,confirmation,plan';
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${owner.token}&events=${events}`);
    socket.on('message', (data) => received.push(String(data)));
    await waitUntilAuthorized(socket);
    const options = { username: 'jwt', password: owner.token, reconnectPeriod: 0, protocolVersion: 4 } as const;
    const mqtt: MqttClient = await connectAsync(`mqtt://127.0.0.1:${mqttPortOf(at)}`, options, false);
    mqtt.on('error', () => {});
    mqtt.on('message', (_topic, payload) => received.push(payload.toString()));
    await mqtt.subscribeAsync(`proto/${owner.tenantId}/device/#`, { qos: 1 });
    closing.push(
      () => socket.close(),
      () => mqtt.end(true),
    );
    return received;
  }

  describe('of a command', () => {
    it('are sealed while it waits for its device, reach the device alone, and are dropped then', async () => {
      const params = { slot: 1, pin: pins.first };
      const headers = { 'idempotency-key': 'set-the-code' };
      const sent = await send('set_code', params, headers);
      expect(sent.status).toBe(202);
      const id = sent.body.command_id;
      expect(await send('set_code', params, headers)).toMatchObject({ status: 202, body: sent.body });
      const other = await send('set_code', { ...params, pin: pins.second }, headers);
      expect([other.status, other.body.code]).toEqual([422, 'IDEMPOTENCY_MISMATCH']);
      expect((await owner.get(`/v1/commands/${id}`)).body.command.params).toEqual({ slot: 1, pin: MASK });
      await readEverything(id);
      await expectNoPinAnywhere();
      const stored = await everythingStored(deployment());
      // A short value could be found by hashing all of them.
      for (const hashed of [{ action: 'set_code', params, ttl_s: 300 }, params]) {
        expect(stored.some((part) => part.includes(payloadHash(hashed)))).toBe(false);
      }
      expect(await sealedRows(deployment())).toBe(deployment().databaseUrl === null ? null : 1);

      const received = await listenEverywhere();
      await connectDevice();
      const command = await waitForCommand(owner, id, ({ verification }) => verification.status === 'verified');
      expect(executed).toEqual([{ action: 'set_code', params }]);
      expect([command.status, command.params]).toEqual(['succeeded', { slot: 1, pin: MASK }]);
      const message = await eventually(() => received.find((text) => text.includes('"message_type":"cmd"')));
      const { payload, payload_hash, signature } = JSON.parse(message);
      expect(payload.params).toEqual({ slot: 1, pin: MASK });
      expect([payload_hash, signature]).toEqual([payloadHash(payload), '']);
      expectNoPin(received, 'streams');
      expect(await send('set_code', params, headers)).toMatchObject({ status: 202, body: sent.body });
      await readEverything(id);
      await expectDropped();
    });

    if (isMine('stop'))
      it('survive that the service is stopped and started', async () => {
        const sent = await send('set_users', { users: [{ name: 'Ada', code: pins.first }, { name: 'Bob' }] });
        const id = sent.body.command_id;
        expect((await owner.get(`/v1/commands/${id}`)).body.command.params).toEqual({
          users: [{ name: 'Ada', code: MASK }, { name: 'Bob' }],
        });
        await at.stop();
        at = await startService(deployment().env, { log });
        owner = recorded({
          ...at.api(owner.token),
          tenantId: owner.tenantId,
          homeId: owner.homeId,
          userId: owner.userId,
        });
        await connectDevice();
        await waitForCommand(owner, id, ({ status }) => status === 'succeeded');
        expect(executed).toEqual([
          { action: 'set_users', params: { users: [{ name: 'Ada', code: pins.first }, { name: 'Bob' }] } },
        ]);
        await expectDropped();
      });
  });

  if (!isMine('ways')) return;

  describe('of other commands', () => {
    it('wait with a critical command for its confirmation, by token or from the inbox', async () => {
      await connectDevice();
      for (const way of ['token', 'inbox']) {
        executed.length = 0;
        const dryRun = await send('open_with_code', { pin: pins.first });
        expect(dryRun.status).toBe(409);
        const { command_id: id, dry_run_token } = dryRun.body;
        await readEverything(id);
        await expectNoPinAnywhere();
        expect((await owner.get('/v1/confirmations')).body.confirmations).toMatchObject([{ params: { pin: MASK } }]);
        const confirmed =
          way === 'token'
            ? await owner.post(`${commandPath()}/confirm`, { dry_run_token })
            : await owner.post(`/v1/confirmations/${id}/approve`, {});
        expect(confirmed.status).toBe(202);
        await waitForCommand(owner, id, ({ verification }) => verification.status === 'verified');
        await waitForCommand(owner, id, ({ status }) => status === 'succeeded');
        expect(executed).toEqual([{ action: 'open_with_code', params: { pin: pins.first } }]);
        await expectDropped();
      }
    });

    it('are dropped when it is refused, cancelled or expires', async () => {
      const dryRun = await send('open_with_code', { pin: pins.first });
      await owner.post(`/v1/confirmations/${dryRun.body.command_id}/refuse`, {});
      const waiting = await send('set_code', { slot: 2, pin: pins.first });
      expect((await owner.post(`/v1/commands/${waiting.body.command_id}/cancel`)).status).toBe(200);
      const late = await owner.post(commandPath(), {
        ...{ action: 'set_code', params: { slot: 3, pin: pins.second }, ttl_s: 1 },
      });
      at.clock.advance(2_000);
      await waitForCommand(owner, late.body.command_id, ({ status }) => status === 'expired');
      await expectDropped();
    });

    it('are not stored with a refused command, also if they are misspelled, have another type or belong to no action', async () => {
      const cases: [string, JsonObject, JsonObject][] = [
        ['set_code', { slot: 1, pni: pins.first }, { slot: 1, pni: MASK }],
        ['set_code', { slot: 99, pin: pins.first }, { slot: 99, pin: MASK }],
        ['set_code', { slot: 1, pin: { value: pins.first } }, { slot: 1, pin: MASK }],
        ['set_users', { users: pins.first }, { users: MASK }],
        ['set_pin', { pin: pins.first, slot: 1 }, { pin: MASK, slot: MASK }],
      ];
      for (const [action, params, shown] of cases) {
        const refused = await send(action, params);
        expect([action, refused.status]).toEqual([action, action === 'set_pin' ? 403 : 400]);
        const [last] = (await owner.get(`/v1/device/${keypad.device_id}/commands`)).body.commands;
        expect(last).toMatchObject({ action, params: shown, status: 'rejected' });
      }
      const again = await send('set_code', { slot: 1, pin: MASK });
      expect(again.body).toMatchObject({ code: 'PARAMS_INVALID', errors: [{ path: 'params.pin' }] });
      await expectDropped();
    });

    it('are not in what GraphQL, intents, batches and agents show', async () => {
      const { commandDevice } = await graphql(
        'mutation ($input: CommandDeviceInput!) { commandDevice(input: $input) { ... on Dispatched { commandId } } }',
        { input: { deviceId: keypad.device_id, action: 'set_code', params: { slot: 1, pin: pins.first } } },
      );
      expect(commandDevice.commandId).toEqual(expect.any(String));
      await owner.post('/v1/devices/command', {
        ...{ device_ids: [keypad.device_id], action: 'set_code', params: { slot: 2, pin: pins.first } },
      });
      await owner.post('/v1/intent', {
        type: 'device.control',
        payload: { device_id: keypad.device_id, action: 'set_code', params: { slot: 3, pin: pins.second } },
      });
      const looser = await owner.patch('/v1/tenant/policy', { agent_confirm_by: 'requester' });
      await owner.post(`/v1/change-requests/${looser.body.change_id}/approve`, {});
      const agent = await mcpClient(at.url, await at.token('owner'), { capabilities: { elicitation: {} } });
      closing.push(() => agent.close());
      const questions: string[] = [];
      agent.setRequestHandler(ElicitRequestSchema, ({ params }) => {
        questions.push(JSON.stringify(params));
        return { action: 'accept', content: { confirm: true } };
      });
      const target = { target_type: 'device', target_id: keypad.device_id };
      const tool = { ...target, action: 'open_with_code', params: { pin: pins.second } };
      answers.push(JSON.stringify(await callTool(agent, 'execute_proto_command', tool)));
      expect(questions).toHaveLength(1);
      expect(questions[0]).toContain('write_only');
      expectNoPin(questions, 'the question');
      await readEverything(commandDevice.commandId);
      await expectNoPinAnywhere();
      await connectDevice();
      await eventually(() => executed.length === 4);
      expect(executed.map(({ params }) => params.pin).sort()).toEqual(
        [pins.first, pins.first, pins.second, pins.second].sort(),
      );
      await eventually(async () => {
        const { commands } = (await owner.get(`/v1/device/${keypad.device_id}/commands`)).body;
        return commands.every(({ status }: { status: string }) => status === 'succeeded');
      });
      await expectDropped();
    });
  });

  it('of a plan are sealed until its steps and compensations have run', async () => {
    const plan = {
      steps: [
        {
          ...{ id: 'code', device_id: keypad.device_id, action: 'set_code', params: { slot: 4, pin: pins.first } },
          compensation: { action: 'set_code', params: { slot: 5, pin: pins.second } },
        },
        { id: 'jam', device_id: keypad.device_id, action: 'jam', depends_on: ['code'] },
      ],
    };
    const preview = await owner.post('/v1/plans', { ...plan, dry_run: true });
    expect(preview.body.steps.map(({ verdict }: { verdict: string }) => verdict)).toEqual(['allowed', 'allowed']);
    const started = await owner.post('/v1/plans', plan, { 'idempotency-key': 'plan-with-codes' });
    expect(started.status).toBe(202);
    const { id, steps } = started.body.plan;
    expect(steps[0]).toMatchObject({
      params: { slot: 4, pin: MASK },
      compensation: { params: { slot: 5, pin: MASK } },
    });
    await owner.get(`/v1/plans/${id}`);
    await owner.get(`/v1/actors/plan/${id}`);
    await expectNoPinAnywhere();
    const received = await listenEverywhere();
    await connectDevice();
    await eventually(async () => (await owner.get(`/v1/plans/${id}`)).body.plan.status === 'rolled_back');
    expect(executed).toEqual([
      { action: 'set_code', params: { slot: 4, pin: pins.first } },
      { action: 'jam', params: {} },
      { action: 'set_code', params: { slot: 5, pin: pins.second } },
    ]);
    await owner.get(`/v1/actors/plan/${id}`);
    expectNoPin(received, 'streams');
    await expectDropped();
  });
});

oneDeployment('writeOnly parameters of a waiting command', (deployment) => {
  it('reach the device after the service was killed', async () => {
    const ports = await freePorts();
    const url = `http://127.0.0.1:${ports.PORT}`;
    let service = startServiceProcess(deployment(), ports);
    await service.active;
    const owner = await newOwner(deployment(), (token) => makeApiClient(url, token));
    const keypad = await register(owner, { device_type: 'keypad' });
    await owner.post(`/v1/devices/${keypad.device_id}/manifest`, manifest);
    const params = { slot: 1, pin: pins.first };
    const sent = await owner.post(`/v1/device/${keypad.device_id}/command`, { action: 'set_code', params, ttl_s: 300 });
    expect(sent.status).toBe(202);
    await service.kill();
    expectNoPin(await everythingStored(deployment()), 'the database');
    service = startServiceProcess(deployment(), ports);
    await service.active;
    const executed: Json[] = [];
    const device = await connect(keypad, {
      commands: {
        set_code: (given) => {
          executed.push(given);
          return { state: { slot: 1 } };
        },
      },
    });
    await waitForCommand(owner, sent.body.command_id, ({ status }) => status === 'succeeded');
    expect(executed).toEqual([params]);
    await device.close(0);
    await service.kill();
    expectNoPin(await everythingStored(deployment()), 'the database');
  });
});

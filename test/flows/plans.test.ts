import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { schemaViolation } from '../support/asyncapi-validation.ts';
import { eventually } from '../support/clock.ts';
import type { CrashPoint } from '../support/crashing-store.ts';
import { oneDeployment } from '../support/deployment.ts';
import { connect, register } from '../support/device.ts';
import { type ApiClient, type ApiResponse, makeApiClient, startService, type TestService } from '../support/service.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from '../support/spawn-service.ts';

type Owner = ApiClient & { homeId: string };

/** Named lights and their actions in order; a light in `broken` fails to turn on. */
class Lights {
  readonly did: string[] = [];
  readonly broken = new Set<string>();
  readonly ids = new Map<string, string>();
  readonly #devices: Device[] = [];

  async add(owner: Owner, name: string): Promise<void> {
    const registered = await register(owner, { device_type: 'light', name });
    const act = (action: string, on: boolean) => () => {
      this.did.push(`${name} ${action}`);
      if (on && this.broken.has(name)) throw new Error('the lamp is broken');
      return { state: { on } };
    };
    const commands = { turn_on: act('on', true), turn_off: act('off', false) };
    this.#devices.push(await connect(registered, { commands }));
    this.ids.set(name, registered.device_id);
  }

  step(name: string, ...depends_on: string[]) {
    return {
      ...{ id: name, device_id: this.ids.get(name), action: 'turn_on', depends_on },
      compensation: { action: 'turn_off' },
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#devices.map((device) => device.close(0)));
  }
}

const planWith = (owner: ApiClient, id: string, status: string, withinMs?: number): Promise<ApiResponse['body']> =>
  eventually(async () => {
    const { plan } = (await owner.get(`/v1/plans/${id}`)).body;
    return plan?.status === status ? plan : null;
  }, withinMs);

describe('a plan over real devices', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let lights: Lights;
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
  });
  beforeEach(async () => {
    lights = new Lights();
    for (const name of ['a', 'b', 'c', 'd']) await lights.add(owner, name);
  });
  afterEach(() => lights.close());
  afterAll(() => at.stop());

  const diamond = () => [lights.step('a'), lights.step('b', 'a'), lights.step('c', 'a'), lights.step('d', 'b', 'c')];

  async function listen(query: string) {
    const { body } = await owner.post('/ws/ticket');
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${body.ticket}&${query}`);
    const texts: string[] = [];
    socket.on('message', (data) => texts.push(String(data)));
    const pongs = () => texts.filter((text) => text === 'pong').length;
    /** Resolves once everything that the service sent before has arrived. */
    const ping = async (): Promise<void> => {
      const before = pongs();
      socket.send('ping');
      await eventually(() => pongs() > before);
    };
    await once(socket, 'open');
    await ping();
    return {
      ping,
      received: () =>
        texts.filter((text) => text !== 'pong').map((text) => JSON.parse(text) as Record<string, unknown>),
      close: () => socket.close(),
    };
  }

  it('turns them on in order, with an update on the WebSocket for each step', async () => {
    const client = await listen('events=plan');
    const deaf = await listen(`events=plan&device_id=${lights.ids.get('a')}`);
    const { body } = await owner.post('/v1/plans', { name: 'Evening', steps: diamond() });
    const { id } = body.plan;
    const plan = await planWith(owner, id, 'succeeded');
    expect([lights.did[0], lights.did.slice(1, 3).sort(), lights.did[3]]).toEqual(['a on', ['b on', 'c on'], 'd on']);
    for (const step of plan.steps) {
      const { command } = (await owner.get(`/v1/commands/${step.command_id}`)).body;
      expect(command).toMatchObject({
        status: 'succeeded',
        verification: { status: 'verified' },
        requested_by: owner.userId,
      });
    }
    const received = await eventually(() =>
      client.received().at(-1)?.status === 'succeeded' ? client.received() : null,
    );
    expect(received.map((update) => schemaViolation(update as JsonObject))).toEqual(received.map(() => null));
    expect(received[0]).toEqual({ type: 'plan_update', plan_id: id, status: 'pending', timestamp: expect.any(Number) });
    const ofD = received.filter(({ step_id }) => step_id === 'd').map(({ step_status }) => step_status);
    expect(ofD).toEqual(['running', 'succeeded']);
    expect(received.filter(({ step_id }) => step_id === undefined).map(({ status }) => status)).toEqual([
      ...['pending', 'running', 'succeeded'],
    ]);
    await deaf.ping();
    expect(deaf.received()).toEqual([]);
    for (const one of [client, deaf]) one.close();
  });

  it('turns them off again in reverse order', async () => {
    lights.broken.add('d');
    const { body } = await owner.post('/v1/plans', { steps: diamond() });
    await planWith(owner, body.plan.id, 'rolled_back');
    const [first, second] = lights.did.slice(1, 3).map((text) => text[0]);
    expect(lights.did).toEqual([
      'a on',
      `${first} on`,
      `${second} on`,
      'd on',
      expect.any(String),
      expect.any(String),
      'a off',
    ]);
    expect(lights.did.slice(4, 6).sort()).toEqual(['b off', 'c off']);
  });

  it('runs each of 100 parallel steps once', async () => {
    const steps = Array.from({ length: 100 }, (_, n) => ({ ...lights.step('abcd'[n % 4] as string), id: `s${n}` }));
    const { body } = await owner.post('/v1/plans', { steps });
    await planWith(owner, body.plan.id, 'succeeded', 20_000);
    expect(lights.did.length).toBe(100);
  });
});

/*
 * While steps run, and during the compensation; the simulation kills at all other moments. The plan takes at least six
 * commits: its start, the ends of a, of b and c, and of d, and two at least for the commands of the compensation: b and c,
 * then a. Later moments exist only if no two ends share a commit.
 */
const faults: CrashPoint[] = [
  { at: 'committed', of: 'step', skip: 1 },
  { at: 'decided', of: 'plan', skip: 4 },
];

oneDeployment('a plan whose service is killed while it runs', (deployment) => {
  let ports: Ports;
  let service: ServiceProcess;
  let owner: Owner;
  const lights = new Lights();

  beforeAll(async () => {
    ports = await freePorts();
    service = startServiceProcess(deployment(), ports);
    await service.active;
    owner = await newOwner(deployment(), (token) => makeApiClient(`http://127.0.0.1:${ports.PORT}`, token));
    for (const name of ['a', 'b', 'c', 'd']) await lights.add(owner, name);
  });
  afterAll(async () => {
    await lights.close();
    await service.kill();
  });

  /** Retries with the same key until there is a response. */
  async function post(steps: object[]): Promise<string> {
    const headers = { 'idempotency-key': randomUUID() };
    return eventually(async () => {
      const { status, body } = await owner.post('/v1/plans', { steps }, headers);
      return status === 202 ? body.plan.id : null;
    });
  }

  async function restarted(): Promise<void> {
    expect(await service.exited).toMatchObject({ signal: 'SIGKILL' });
    service = startServiceProcess(deployment(), ports);
    await service.active;
  }

  it.each(faults)('continues after a kill when $of $skip was $at: no step twice, none left out', async (fault) => {
    lights.did.length = 0;
    lights.broken.clear();
    lights.broken.add('d');
    await service.armCrash(fault);
    const { step } = lights;
    const steps = [
      step.call(lights, 'a'),
      step.call(lights, 'b', 'a'),
      step.call(lights, 'c', 'a'),
      step.call(lights, 'd', 'b', 'c'),
    ];
    const [id] = await Promise.all([post(steps), restarted()]);
    const plan = await planWith(owner, id, 'rolled_back');
    expect(plan.steps.map(({ status }: { status: string }) => status)).toEqual([
      ...['compensated', 'compensated', 'compensated', 'failed'],
    ]);
    expect([...lights.did].sort()).toEqual(['a off', 'a on', 'b off', 'b on', 'c off', 'c on', 'd on']);
    expect([lights.did[0], lights.did[3], lights.did[6]]).toEqual(['a on', 'd on', 'a off']);
    const { commands } = (await owner.get(`/v1/device/${lights.ids.get('b')}/commands?limit=2`)).body;
    expect(commands.map(({ action }: { action: string }) => action).sort()).toEqual(['turn_off', 'turn_on']);
  });
});

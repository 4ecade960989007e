import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let sensor: string;

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
});
beforeEach(async () => {
  sensor = (await mine.register({ device_type: 'weather_sensor' })).device_id;
  await mine.connect(sensor);
});
afterAll(() => service.close());

const call = async (path: string) => (await mine.call('GET', path)).body;

/** When the command times out. */
async function dueAt(commandId: string): Promise<number> {
  const { timers } = (await call(`/actors/command/${commandId}`)).actor;
  expect(timers).toHaveLength(1);
  return Date.parse(timers[0].due_at);
}

async function send(action: string, more: object = {}): Promise<string> {
  const params = action === 'calibrate' ? { reference: 1 } : {};
  const { status, body } = await mine.call('POST', `/device/${sensor}/command`, { action, params, ...more });
  expect(status).toBe(202);
  return body.command_id;
}

it('the timeout of a command is that of its action, unless the request names one', async () => {
  const shown = async (id: string) => (await call(`/commands/${id}`)).command.timeout_s;
  expect(await shown(await send('calibrate'))).toBe(300);
  expect(await shown(await send('read_now'))).toBe(30);
  expect(await shown(await send('calibrate', { timeout_s: 20 }))).toBe(20);
});

it('the step of a plan has the timeout of its action too', async () => {
  const step = { id: 'a', device_id: sensor, action: 'calibrate', params: { reference: 1 } };
  const { body } = await mine.call('POST', '/plans', { steps: [step] });
  const { steps } = (await call(`/plans/${body.plan.id}`)).plan;
  expect((await call(`/commands/${steps[0].command_id}`)).command.timeout_s).toBe(300);
});

it('each in_progress renews the timeout, up to ten times timeout_s after the first write', async () => {
  const id = await send('read_now', { timeout_s: 100 });
  const writtenAt = service.clock.now();
  expect(await dueAt(id)).toBe(writtenAt + 100_000);
  for (let elapsed = 90_000; elapsed < 1_000_000; elapsed += 90_000) {
    service.clock.advance(90_000);
    await mine.acknowledge(sensor, id, 'in_progress');
    expect(await dueAt(id)).toBe(writtenAt + Math.min(elapsed + 100_000, 1_000_000));
  }
  await mine.acknowledge(sensor, id, 'succeeded');
  expect((await call(`/commands/${id}`)).command.status).toBe('succeeded');
});

it('the registry shows the timeout of an action, and a manifest sets it for its actions', async () => {
  const { capabilities } = await call('/manifest/capabilities');
  const update = capabilities.find(({ action }: { action: string }) => action === 'update_firmware');
  expect(update.timeout_s).toBe(600);
  const capability = { action: 'measure_soil', timeout_s: 120 };
  const posted = await mine.call('POST', `/devices/${sensor}/manifest`, { capabilities: [capability] });
  expect(posted.status).toBe(201);
  expect((await call(`/devices/${sensor}/manifest`)).capabilities).toMatchObject([capability]);
  const id = await send('measure_soil');
  expect((await call(`/commands/${id}`)).command.timeout_s).toBe(120);
});

import type { RunningDevice } from '../device/homes/running-device.ts';
import { realEnvironment, type SimulationEnvironment } from '../device/homes/simulated-device.ts';
import { createSimulatedHome } from '../device/homes/simulated-home.ts';
import { DAY_MS } from '../domain/day.ts';
import type { JsonObject } from '../domain/values.ts';
import type { Api, RequestOptions } from './api.ts';
import { type CommandRecord, type Dispatched, type DryRun, isDryRun } from './commands/device-commands.ts';
import { killEachProcess } from './demo-failover.ts';
import { runGoodNightGoal } from './demo-plan.ts';
import { FailedError } from './errors.ts';
import type { ServiceGroup } from './service-group.ts';
import { importPast, type RegisteredDevice, registerSimulatedDevice, startDevice } from './simulation.ts';
import type { StepReporter } from './step-reporter.ts';
import { recordUpdates, type UpdateRecorder } from './update-recorder.ts';
import type { LiveUpdate } from './update-stream.ts';

/** The environment that the demo leaves running. */
export interface DemoEnvironment {
  url: string;
  mqttUrl: string;
  token: string;
  light: string;
  lock: string;
}

interface DemoContext extends Omit<DemoEnvironment, 'light' | 'lock'> {
  api: Api;
  /** Devices are added as they are connected. */
  running: RunningDevice[];
  cleanUp: (() => Promise<unknown>)[];
  /** The processes of the service, if it runs in several. */
  group: ServiceGroup | null;
}

const TICK_MS = 2_000;

/**
 * Runs the main features end to end: devices come online, a light is dimmed, a door is unlocked after a confirmation,
 * and the plan for a goal is rolled back once and succeeds the second time.
 */
export async function runDemoScenario(reporter: StepReporter, context: DemoContext): Promise<DemoEnvironment> {
  const { api, running, url, mqttUrl, token } = context;
  // Without random manual use of switches and doors until the end, so that each step only shows the effect of its
  // request.
  let finished = false;
  const world = realEnvironment(() => (finished ? Math.random() : 0.5));
  const homeId = await reporter.step('tenant', () => registerTenantAndHome(api));
  const recorder = await reporter.step('websocket', () => subscribeToUpdates(context));
  const devices = await reporter.step('devices', () => registerHomeDevices(api, homeId, world));
  await reporter.step('history', () => importDay(api, devices));
  await reporter.step('online', () => connectDevices(devices, running, recorder, world));
  const [light, lock] = [deviceWithAction(devices, 'set_brightness'), deviceWithAction(devices, 'unlock')];

  reporter.heading(`Dim the ${light.simulated.name.toLowerCase()} to 40 %`);
  const dimmed = await reporter.step('set_brightness', () => sendCommand(api, light, 'set_brightness', { level: 40 }));
  await verifyOutcome(reporter, { api, recorder, commandId: dimmed, device: light });

  reporter.heading(`Unlock the ${lock.simulated.name.toLowerCase()}`);
  const dryRun = await reporter.step('unlock', () => requestDryRun(api, lock, 'unlock'));
  const unlocked = await reporter.step('confirm', () => confirmCommand(api, lock, dryRun));
  await verifyOutcome(reporter, { api, recorder, commandId: unlocked, device: lock });

  const door = running[devices.indexOf(lock)] as RunningDevice;
  await runGoodNightGoal(reporter, { api, recorder, homeId, light, lock, door });
  if (context.group !== null) await killEachProcess(reporter, { api, group: context.group, light });
  finished = true;
  return { url, mqttUrl, token, light: light.registration.device_id, lock: lock.registration.device_id };
}

async function registerTenantAndHome(api: Api) {
  await api.post('/v1/tenant/register', { tenant_name: 'Demo' });
  const { id } = await api.post<{ id: string }>('/v1/homes', { home_name: 'Demo home', timezone: 'Europe/Berlin' });
  return { value: id, message: 'registered the tenant Demo with one home' };
}

async function subscribeToUpdates({ api, cleanUp }: DemoContext) {
  const recorder = await recordUpdates(api, ['state', 'presence', 'command', 'plan']);
  cleanUp.push(async () => recorder.close());
  return { value: recorder, message: 'subscribed to states, presence, commands and plans' };
}

async function registerHomeDevices(api: Api, homeId: string, world: SimulationEnvironment) {
  const devices: RegisteredDevice[] = [];
  for (const simulated of createSimulatedHome(world))
    devices.push(await registerSimulatedDevice(api, simulated, { homeId }));
  return {
    value: devices,
    message: `${devices.length} registered: ${devices.map(({ simulated }) => simulated.name).join(', ')}`,
  };
}

/** A day of what the devices would have reported, for the charts. */
async function importDay(api: Api, devices: readonly RegisteredDevice[]) {
  const imported = await Promise.all(
    devices.map((device, n) => importPast(api, device, { n, pastMs: DAY_MS, random: Math.random })),
  );
  const total = imported.reduce((sum, count) => sum + count, 0);
  return { value: null, message: `imported ${total} reports of the day before` };
}

async function connectDevices(
  devices: readonly RegisteredDevice[],
  running: RunningDevice[],
  recorder: UpdateRecorder,
  world: SimulationEnvironment,
) {
  for (const device of devices) running.push(await startDevice(device, world, TICK_MS));
  for (const { registration, simulated } of devices) {
    const isAbout = (update: LiveUpdate) => update.device_id === registration.device_id;
    await recorder.waitFor((update) => isAbout(update) && update.online === true, `${simulated.name} online`);
    await recorder.waitFor(
      (update) => isAbout(update) && update.type === 'state_update',
      `the state of ${simulated.name}`,
    );
  }
  return { value: null, message: 'each device signed in over MQTT and reported its state' };
}

function deviceWithAction(devices: readonly RegisteredDevice[], action: string): RegisteredDevice {
  const device = devices.find(({ simulated }) => Object.hasOwn(simulated.commands, action));
  if (device === undefined) throw new FailedError(`no device of the home supports '${action}'`);
  return device;
}

const commandPath = ({ registration }: RegisteredDevice) => `/v1/device/${registration.device_id}/command`;

async function sendCommand(api: Api, device: RegisteredDevice, action: string, params: JsonObject) {
  const { status, body } = await api.request<Dispatched>('POST', commandPath(device), { body: { action, params } });
  if (status !== 202) throw new FailedError(`the service answered ${status}`);
  return { value: body.command_id, message: `${status}, accepted as command ${body.command_id}` };
}

async function requestDryRun(api: Api, device: RegisteredDevice, action: string) {
  const options: RequestOptions = { body: { action }, acceptStatuses: [409] };
  const { status, body } = await api.request<Dispatched | DryRun>('POST', commandPath(device), options);
  if (status !== 409 || !isDryRun(body))
    throw new FailedError(`expected a dry run, but the service answered ${status}`);
  const changes = Object.entries(body.preview.changes ?? {});
  const preview = changes.map(([name, { from, to }]) => `${name} ${JSON.stringify(from)} → ${JSON.stringify(to)}`);
  if (preview.length === 0) throw new FailedError('the dry run has no preview of changes');
  return { value: body, message: `409, not sent: ${body.reason} Preview: ${preview.join(', ')}` };
}

async function confirmCommand(api: Api, device: RegisteredDevice, { dry_run_token }: DryRun) {
  const { status, body } = await api.request<Dispatched>('POST', `${commandPath(device)}/confirm`, {
    body: { dry_run_token },
  });
  if (status !== 202) throw new FailedError(`the service answered ${status}`);
  return { value: body.command_id, message: `${status}, with the token of the dry run` };
}

/** Checks the outcome of a command: the device's acknowledgement, the verified state, and the WebSocket update. */
async function verifyOutcome(
  reporter: StepReporter,
  {
    api,
    recorder,
    commandId,
    device,
  }: { api: Api; recorder: UpdateRecorder; commandId: string; device: RegisteredDevice },
): Promise<void> {
  const path = `/v1/commands/${commandId}`;
  await reporter.step('acknowledged', async () => {
    await recorder.waitFor(
      (update) => update.command_id === commandId && update.status === 'succeeded',
      'the final acknowledgement',
    );
    const { command } = await api.get<{ command: CommandRecord }>(path);
    const statuses = command.timeline.map(({ status }) => status);
    if (command.status !== 'succeeded') throw new FailedError(`the command is ${command.status}`);
    return { value: null, message: `by the device: ${statuses.join(' → ')}` };
  });
  await reporter.step('verified', async () => {
    const isVerificationUpdate = (update: LiveUpdate) =>
      update.command_id === commandId && update.verification !== 'pending';
    await recorder.waitFor(
      (update) => isVerificationUpdate(update) && update.verification !== 'unverifiable',
      'the verification',
    );
    const { command } = await api.get<{ command: CommandRecord & { verification: Record<string, unknown> } }>(path);
    const { status, expected } = command.verification;
    if (status !== 'verified') throw new FailedError(`the verification is ${status}`);
    return { value: null, message: `the reported state contains ${JSON.stringify(expected)}` };
  });
  await reporter.step('state_update', async () => {
    const { command } = await api.get<{ command: { verification: { expected: JsonObject } } }>(path);
    const expected = Object.entries(command.verification.expected);
    const { state } = await recorder.waitFor(
      ({ type, device_id, state }) =>
        type === 'state_update' &&
        device_id === device.registration.device_id &&
        expected.every(([name, value]) => JSON.stringify((state as JsonObject)[name]) === JSON.stringify(value)),
      'the new state',
    );
    return { value: null, message: `received by the WebSocket client: ${JSON.stringify(state)}` };
  });
}

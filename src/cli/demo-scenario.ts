import type { RunningDevice } from '../device/homes/running-device.ts';
import { realEnvironment, type SimulationEnvironment } from '../device/homes/simulated-device.ts';
import { createSimulatedHome } from '../device/homes/simulated-home.ts';
import type { JsonObject } from '../domain/values.ts';
import type { Api, RequestOptions } from './api.ts';
import { type CommandRecord, type Dispatched, type DryRun, isDryRun } from './commands/device-commands.ts';
import { runGoodNightGoal } from './demo-plan.ts';
import { FailedError } from './errors.ts';
import { type RegisteredDevice, registerDevice, startDevice } from './simulation.ts';
import type { StepReporter } from './step-reporter.ts';
import { recordUpdates, type UpdateRecorder } from './update-recorder.ts';
import type { LiveUpdate } from './update-stream.ts';

/** What the story leaves behind, to be played with. */
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
}

const TICK_MS = 2_000;

/**
 * The main job, end to end: a home comes online, a light is dimmed, a door is unlocked after a confirmation, and a goal
 * becomes a plan, which is rolled back once and succeeds the second time.
 */
export async function runDemoScenario(teller: StepReporter, scene: DemoContext): Promise<DemoEnvironment> {
  const { api, running, url, mqttUrl, token } = scene;
  // Until it is told, nobody walks through the door or comes to a switch on the wall by chance: each step comes of what is asked for.
  let told = false;
  const world = realEnvironment(() => (told ? Math.random() : 0.5));
  const homeId = await teller.step('tenant', () => registerTenantAndHome(api));
  const heard = await teller.step('websocket', () => subscribeToUpdates(scene));
  const members = await teller.step('devices', () => registerHomeDevices(api, homeId, world));
  await teller.step('online', () => connectDevices(members, running, heard, world));
  const [light, lock] = [deviceWithAction(members, 'set_brightness'), deviceWithAction(members, 'unlock')];

  teller.heading(`Dim the ${light.simulated.name.toLowerCase()} to 40 %`);
  const dimmed = await teller.step('set_brightness', () => sendCommand(api, light, 'set_brightness', { level: 40 }));
  await verifyOutcome(teller, { api, heard, commandId: dimmed, member: light });

  teller.heading(`Unlock the ${lock.simulated.name.toLowerCase()}`);
  const dryRun = await teller.step('unlock', () => requestDryRun(api, lock, 'unlock'));
  const unlocked = await teller.step('confirm', () => confirmCommand(api, lock, dryRun));
  await verifyOutcome(teller, { api, heard, commandId: unlocked, member: lock });

  const door = running[members.indexOf(lock)] as RunningDevice;
  await runGoodNightGoal(teller, { api, heard, homeId, light, lock, door });
  told = true;
  return { url, mqttUrl, token, light: light.registration.device_id, lock: lock.registration.device_id };
}

async function registerTenantAndHome(api: Api) {
  await api.post('/v1/tenant/register', { tenant_name: 'Demo' });
  const { id } = await api.post<{ id: string }>('/v1/homes', { home_name: 'Demo home', timezone: 'Europe/Berlin' });
  return { value: id, told: 'Demo, with a home of its own' };
}

async function subscribeToUpdates({ api, cleanUp }: DemoContext) {
  const heard = await recordUpdates(api, ['state', 'presence', 'command', 'plan']);
  cleanUp.push(async () => heard.close());
  return { value: heard, told: 'a client listens for states, presence, commands and plans' };
}

async function registerHomeDevices(api: Api, homeId: string, world: SimulationEnvironment) {
  const members: RegisteredDevice[] = [];
  for (const simulated of createSimulatedHome(world)) members.push(await registerDevice(api, simulated, { homeId }));
  return {
    value: members,
    told: `${members.length} registered: ${members.map(({ simulated }) => simulated.name).join(', ')}`,
  };
}

async function connectDevices(
  members: readonly RegisteredDevice[],
  running: RunningDevice[],
  heard: UpdateRecorder,
  world: SimulationEnvironment,
) {
  for (const member of members) running.push(await startDevice(member, world, TICK_MS));
  for (const { registration, simulated } of members) {
    const isIt = (update: LiveUpdate) => update.device_id === registration.device_id;
    await heard.waitFor((update) => isIt(update) && update.online === true, `${simulated.name} online`);
    await heard.waitFor((update) => isIt(update) && update.type === 'state_update', `the state of ${simulated.name}`);
  }
  return { value: null, told: 'each signed in over MQTT, said hello and reported its state' };
}

function deviceWithAction(members: readonly RegisteredDevice[], action: string): RegisteredDevice {
  const member = members.find(({ simulated }) => Object.hasOwn(simulated.commands, action));
  if (member === undefined) throw new FailedError(`no device of the home can ${action}`);
  return member;
}

const commandPath = ({ registration }: RegisteredDevice) => `/v1/device/${registration.device_id}/command`;

async function sendCommand(api: Api, member: RegisteredDevice, action: string, params: JsonObject) {
  const { status, body } = await api.request<Dispatched>('POST', commandPath(member), { body: { action, params } });
  if (status !== 202) throw new FailedError(`the service answered ${status}`);
  return { value: body.command_id, told: `${status}, on its way as command ${body.command_id}` };
}

async function requestDryRun(api: Api, member: RegisteredDevice, action: string) {
  const options: RequestOptions = { body: { action }, acceptStatuses: [409] };
  const { status, body } = await api.request<Dispatched | DryRun>('POST', commandPath(member), options);
  if (status !== 409 || !isDryRun(body)) throw new FailedError(`the service answered ${status}, without a dry run`);
  const changes = Object.entries(body.preview.changes ?? {});
  const preview = changes.map(([name, { from, to }]) => `${name} ${JSON.stringify(from)} → ${JSON.stringify(to)}`);
  if (preview.length === 0) throw new FailedError('the preview shows no change');
  return { value: body, told: `409, not sent: ${body.reason} Preview: ${preview.join(', ')}` };
}

async function confirmCommand(api: Api, member: RegisteredDevice, { dry_run_token }: DryRun) {
  const { status, body } = await api.request<Dispatched>('POST', `${commandPath(member)}/confirm`, {
    body: { dry_run_token },
  });
  if (status !== 202) throw new FailedError(`the service answered ${status}`);
  return { value: body.command_id, told: `${status}, with the token of the dry run` };
}

/** What became of a command: the device's word, the proof in its state, and what the WebSocket client saw. */
async function verifyOutcome(
  teller: StepReporter,
  { api, heard, commandId, member }: { api: Api; heard: UpdateRecorder; commandId: string; member: RegisteredDevice },
): Promise<void> {
  const path = `/v1/commands/${commandId}`;
  await teller.step('acknowledged', async () => {
    await heard.waitFor((update) => update.command_id === commandId && update.status === 'succeeded', 'the final word');
    const { command } = await api.get<{ command: CommandRecord }>(path);
    const statuses = command.timeline.map(({ status }) => status);
    if (command.status !== 'succeeded') throw new FailedError(`the command ${command.status}`);
    return { value: null, told: `by the device: ${statuses.join(' → ')}` };
  });
  await teller.step('verified', async () => {
    const proof = (update: LiveUpdate) => update.command_id === commandId && update.verification !== 'pending';
    await heard.waitFor((update) => proof(update) && update.verification !== 'unverifiable', 'the verification');
    const { command } = await api.get<{ command: CommandRecord & { verification: Record<string, unknown> } }>(path);
    const { status, expected } = command.verification;
    if (status !== 'verified') throw new FailedError(`the verification says ${status}`);
    return { value: null, told: `the reported state contains ${JSON.stringify(expected)}` };
  });
  await teller.step('state_update', async () => {
    const { command } = await api.get<{ command: { verification: { expected: JsonObject } } }>(path);
    const expected = Object.entries(command.verification.expected);
    const { state } = await heard.waitFor(
      ({ type, device_id, state }) =>
        type === 'state_update' &&
        device_id === member.registration.device_id &&
        expected.every(([name, value]) => JSON.stringify((state as JsonObject)[name]) === JSON.stringify(value)),
      'the new state',
    );
    return { value: null, told: `heard by the WebSocket client: ${JSON.stringify(state)}` };
  });
}

import { simulatedHome } from '../device/homes/home.ts';
import type { Running } from '../device/homes/run.ts';
import { realWorld, type World } from '../device/homes/simulated.ts';
import type { JsonObject } from '../domain/values.ts';
import type { Api } from './api.ts';
import { Failed } from './failures.ts';
import { connect, enlist, type Member } from './fleet.ts';
import { type Heard, hear } from './heard.ts';
import type { LiveUpdate } from './live.ts';
import { tellGoodNight } from './story-night.ts';
import type { Teller } from './teller.ts';
import { type CommandRecord, type Dispatched, type DryRun, isDryRun } from './verbs/commands.ts';

/** What the story leaves behind, to be played with. */
export interface Stage {
  url: string;
  mqttUrl: string;
  token: string;
  light: string;
  lock: string;
}

interface Scene extends Omit<Stage, 'light' | 'lock'> {
  api: Api;
  /** Devices are added as they are connected. */
  running: Running[];
  cleanUp: (() => Promise<unknown>)[];
}

const TICK_MS = 2_000;

/**
 * The main job, end to end: a home comes online, a light is dimmed, a door is unlocked after a confirmation, and a goal
 * becomes a plan, which is rolled back once and succeeds the second time.
 */
export async function tellStory(teller: Teller, scene: Scene): Promise<Stage> {
  const { api, running, url, mqttUrl, token } = scene;
  // Until it is told, nobody walks through the door or comes to a switch on the wall by chance: each step comes of what is asked for.
  let told = false;
  const world = realWorld(() => (told ? Math.random() : 0.5));
  const homeId = await teller.step('tenant', () => moveIn(api));
  const heard = await teller.step('websocket', () => listen(scene));
  const members = await teller.step('devices', () => enlistHome(api, homeId, world));
  await teller.step('online', () => comeOnline(members, running, heard, world));
  const [light, lock] = [memberOf(members, 'set_brightness'), memberOf(members, 'unlock')];

  teller.chapter(`Dim the ${light.simulated.name.toLowerCase()} to 40 %`);
  const dimmed = await teller.step('set_brightness', () => command(api, light, 'set_brightness', { level: 40 }));
  await followThrough(teller, { api, heard, commandId: dimmed, member: light });

  teller.chapter(`Unlock the ${lock.simulated.name.toLowerCase()}`);
  const dryRun = await teller.step('unlock', () => criticalCommand(api, lock, 'unlock'));
  const unlocked = await teller.step('confirm', () => confirm(api, lock, dryRun));
  await followThrough(teller, { api, heard, commandId: unlocked, member: lock });

  const door = running[members.indexOf(lock)] as Running;
  await tellGoodNight(teller, { api, heard, homeId, light, lock, door });
  told = true;
  return { url, mqttUrl, token, light: light.registration.device_id, lock: lock.registration.device_id };
}

async function moveIn(api: Api) {
  await api.post('/v1/tenant/register', { tenant_name: 'Demo' });
  const { id } = await api.post<{ id: string }>('/v1/homes', { home_name: 'Demo home', timezone: 'Europe/Berlin' });
  return { value: id, told: 'Demo, with a home of its own' };
}

async function listen({ api, cleanUp }: Scene) {
  const heard = await hear(api, ['state', 'presence', 'command', 'plan']);
  cleanUp.push(async () => heard.close());
  return { value: heard, told: 'a client listens for states, presence, commands and plans' };
}

async function enlistHome(api: Api, homeId: string, world: World) {
  const members: Member[] = [];
  for (const simulated of simulatedHome(world)) members.push(await enlist(api, simulated, { homeId }));
  return {
    value: members,
    told: `${members.length} registered: ${members.map(({ simulated }) => simulated.name).join(', ')}`,
  };
}

async function comeOnline(members: readonly Member[], running: Running[], heard: Heard, world: World) {
  for (const member of members) running.push(await connect(member, world, TICK_MS));
  for (const { registration, simulated } of members) {
    const isIt = (update: LiveUpdate) => update.device_id === registration.device_id;
    await heard.until((update) => isIt(update) && update.online === true, `${simulated.name} online`);
    await heard.until((update) => isIt(update) && update.type === 'state_update', `the state of ${simulated.name}`);
  }
  return { value: null, told: 'each signed in over MQTT, said hello and reported its state' };
}

function memberOf(members: readonly Member[], action: string): Member {
  const member = members.find(({ simulated }) => Object.hasOwn(simulated.commands, action));
  if (member === undefined) throw new Failed(`no device of the home can ${action}`);
  return member;
}

const commandPath = ({ registration }: Member) => `/v1/device/${registration.device_id}/command`;

async function command(api: Api, member: Member, action: string, params: JsonObject) {
  const { status, body } = await api.ask<Dispatched>('POST', commandPath(member), { body: { action, params } });
  if (status !== 202) throw new Failed(`the service answered ${status}`);
  return { value: body.command_id, told: `${status}, on its way as command ${body.command_id}` };
}

async function criticalCommand(api: Api, member: Member, action: string) {
  const asking = { body: { action }, also: [409] };
  const { status, body } = await api.ask<Dispatched | DryRun>('POST', commandPath(member), asking);
  if (status !== 409 || !isDryRun(body)) throw new Failed(`the service answered ${status}, without a dry run`);
  const changes = Object.entries(body.preview.changes ?? {});
  const preview = changes.map(([name, { from, to }]) => `${name} ${JSON.stringify(from)} → ${JSON.stringify(to)}`);
  if (preview.length === 0) throw new Failed('the preview shows no change');
  return { value: body, told: `409, not sent: ${body.reason} Preview: ${preview.join(', ')}` };
}

async function confirm(api: Api, member: Member, { dry_run_token }: DryRun) {
  const { status, body } = await api.ask<Dispatched>('POST', `${commandPath(member)}/confirm`, {
    body: { dry_run_token },
  });
  if (status !== 202) throw new Failed(`the service answered ${status}`);
  return { value: body.command_id, told: `${status}, with the token of the dry run` };
}

/** What became of a command: the device's word, the proof in its state, and what the WebSocket client saw. */
async function followThrough(
  teller: Teller,
  { api, heard, commandId, member }: { api: Api; heard: Heard; commandId: string; member: Member },
): Promise<void> {
  const path = `/v1/commands/${commandId}`;
  await teller.step('acknowledged', async () => {
    await heard.until((update) => update.command_id === commandId && update.status === 'succeeded', 'the final word');
    const { command } = await api.get<{ command: CommandRecord }>(path);
    const statuses = command.timeline.map(({ status }) => status);
    if (command.status !== 'succeeded') throw new Failed(`the command ${command.status}`);
    return { value: null, told: `by the device: ${statuses.join(' → ')}` };
  });
  await teller.step('verified', async () => {
    const proof = (update: LiveUpdate) => update.command_id === commandId && update.verification !== 'pending';
    await heard.until((update) => proof(update) && update.verification !== 'unverifiable', 'the verification');
    const { command } = await api.get<{ command: CommandRecord & { verification: Record<string, unknown> } }>(path);
    const { status, expected } = command.verification;
    if (status !== 'verified') throw new Failed(`the verification says ${status}`);
    return { value: null, told: `the reported state contains ${JSON.stringify(expected)}` };
  });
  await teller.step('state_update', async () => {
    const { command } = await api.get<{ command: { verification: { expected: JsonObject } } }>(path);
    const expected = Object.entries(command.verification.expected);
    const { state } = await heard.until(
      ({ type, device_id, state }) =>
        type === 'state_update' &&
        device_id === member.registration.device_id &&
        expected.every(([name, value]) => JSON.stringify((state as JsonObject)[name]) === JSON.stringify(value)),
      'the new state',
    );
    return { value: null, told: `heard by the WebSocket client: ${JSON.stringify(state)}` };
  });
}

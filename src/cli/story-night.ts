import type { Running } from '../device/homes/run.ts';
import type { JsonObject } from '../domain/values.ts';
import type { Api } from './api.ts';
import { Failed } from './failures.ts';
import type { Member } from './fleet.ts';
import type { Heard } from './heard.ts';
import type { LiveUpdate } from './live.ts';
import { plain } from './print.ts';
import type { Teller } from './teller.ts';
import type { CommandRecord } from './verbs/commands.ts';
import type { PlanRecord, PlanStep } from './verbs/plans.ts';

interface Night {
  api: Api;
  heard: Heard;
  homeId: string;
  light: Member;
  lock: Member;
  door: Running;
}

const ROUTINE = 'turn off the lights; then lock the front door';
/** Plans that are over. */
const ENDS = ['succeeded', 'failed', 'rolled_back', 'rollback_failed', 'cancelled'];

/** A goal becomes a plan: with the door open a step fails and the plan is rolled back, with the door shut it succeeds. */
export async function tellGoodNight(teller: Teller, night: Night): Promise<void> {
  const { api } = night;
  teller.chapter('“Good night”, while somebody holds the front door open');
  await teller.step('by hand', () => moveDoor(night, 'hold_open'));
  await teller.step('memory', async () => {
    await api.post('/v1/memories', { kind: 'routine', subject: 'Good night', content: ROUTINE });
    return { value: null, told: `a routine is remembered: ${ROUTINE}` };
  });
  await pursue(teller, night, 'rolled_back');
  await teller.step('undone', () => lookAt(night, { on: true }, { locked: false }));

  teller.chapter('“Good night” again, with the door shut');
  await teller.step('by hand', () => moveDoor(night, 'shut'));
  await pursue(teller, night, 'succeeded');
  await teller.step('done', () => lookAt(night, { on: false }, { locked: true }));
}

async function moveDoor({ lock, door }: Night, how: string) {
  const changed = lock.simulated.byHand?.[how]?.();
  if (changed === undefined) throw new Failed(`nobody can ${how} this door`);
  await door.device.report(changed);
  return { value: null, told: `the door reports ${JSON.stringify(changed)}` };
}

/** Each state of the plan and of its steps as it comes, one line each, until the plan is over. */
async function pursue(teller: Teller, { api, heard, homeId, light, lock }: Night, wanted: string): Promise<void> {
  const planId = await teller.step('goal', async () => {
    const goal = { type: 'goal', payload: { text: 'Good night', home_id: homeId } };
    // The sidecar may just be starting.
    const asking = { body: goal, patient: true };
    const { status, body } = await api.ask<{ status: string; mode: string; plan_id: string }>(
      'POST',
      '/v1/intent',
      asking,
    );
    return {
      value: body.plan_id,
      told: `${status} ${body.status}, ${body.mode}: the sidecar thinks about plan ${body.plan_id}`,
    };
  });
  const names = new Map([light, lock].map(({ registration, simulated }) => [registration.device_id, simulated.name]));
  const told = new Set<LiveUpdate>();
  for (let status = ''; !ENDS.includes(status); ) {
    const update = await heard.until((one) => one.plan_id === planId && !told.has(one), `more of plan ${planId}`);
    told.add(update);
    const { step_id, step_status } = update;
    if (typeof step_id !== 'string') status = String(update.status);
    await teller.step(String(step_status ?? status), async () => {
      const { plan } = await api.get<{ plan: PlanRecord }>(`/v1/plans/${planId}`);
      if (typeof step_id !== 'string') return { value: null, told: `the plan “${plan.name}”` };
      const step = plan.steps.find(({ id }) => id === step_id);
      if (step === undefined) throw new Failed(`the plan has no step ${step_id}`);
      const why = step_status === 'failed' ? `: ${await reasonIn(api, step)}` : '';
      return { value: null, told: `${names.get(step.device_id) ?? step.device_id} · ${step.action}${why}` };
    });
    if (ENDS.includes(status) && status !== wanted) throw new Failed(`the plan ended as ${status}`);
  }
}

/** The device's own words where it has some. */
async function reasonIn(api: Api, { command_id, error }: PlanStep): Promise<string> {
  if (command_id === undefined) return error?.detail ?? 'for no reason';
  const { command } = await api.get<{ command: CommandRecord }>(`/v1/commands/${command_id}`);
  return plain(typeof command.error === 'string' ? command.error : (error?.detail ?? 'for no reason'));
}

async function lookAt({ api, light, lock }: Night, wantedLight: JsonObject, wantedLock: JsonObject) {
  const told: string[] = [];
  for (const [member, wanted] of [
    [light, wantedLight],
    [lock, wantedLock],
  ] as const) {
    const { device } = await api.get<{ device: { state: JsonObject } }>(`/v1/devices/${member.registration.device_id}`);
    const reported = Object.fromEntries(Object.keys(wanted).map((name) => [name, device.state[name] ?? null]));
    if (JSON.stringify(reported) !== JSON.stringify(wanted))
      throw new Failed(`${member.simulated.name}: ${JSON.stringify(reported)}`);
    told.push(`${member.simulated.name} ${JSON.stringify(reported)}`);
  }
  return { value: null, told: told.join(', ') };
}

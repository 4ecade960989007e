import type { RunningDevice } from '../device/homes/running-device.ts';
import type { JsonObject } from '../domain/values.ts';
import type { Api, RequestOptions } from './api.ts';
import type { CommandRecord } from './commands/device-commands.ts';
import type { PlanRecord, PlanStep } from './commands/plans.ts';
import { FailedError } from './errors.ts';
import { escapeForTerminal } from './print.ts';
import type { RegisteredDevice } from './simulation.ts';
import type { StepReporter } from './step-reporter.ts';
import type { UpdateRecorder } from './update-recorder.ts';
import type { LiveUpdate } from './update-stream.ts';

interface GoodNightContext {
  api: Api;
  heard: UpdateRecorder;
  homeId: string;
  light: RegisteredDevice;
  lock: RegisteredDevice;
  door: RunningDevice;
}

const ROUTINE = 'turn off the lights; then lock the front door';
/** Plans that are over. */
const FINAL_STATUSES = ['succeeded', 'failed', 'rolled_back', 'rollback_failed', 'cancelled'];

/** A goal becomes a plan: with the door open a step fails and the plan is rolled back, with the door shut it succeeds. */
export async function runGoodNightGoal(teller: StepReporter, night: GoodNightContext): Promise<void> {
  const { api } = night;
  teller.heading('“Good night”, while somebody holds the front door open');
  await teller.step('by hand', () => operateDoorByHand(night, 'hold_open'));
  await teller.step('memory', async () => {
    await api.post('/v1/memories', { kind: 'routine', subject: 'Good night', content: ROUTINE });
    return { value: null, told: `a routine is remembered: ${ROUTINE}` };
  });
  await followGoal(teller, night, 'rolled_back');
  await teller.step('undone', () => checkReportedStates(night, { on: true }, { locked: false }));

  teller.heading('“Good night” again, with the door shut');
  await teller.step('by hand', () => operateDoorByHand(night, 'shut'));
  await followGoal(teller, night, 'succeeded');
  await teller.step('done', () => checkReportedStates(night, { on: false }, { locked: true }));
}

async function operateDoorByHand({ lock, door }: GoodNightContext, how: string) {
  const changed = lock.simulated.manualActions?.[how]?.();
  if (changed === undefined) throw new FailedError(`nobody can ${how} this door`);
  await door.device.report(changed);
  return { value: null, told: `the door reports ${JSON.stringify(changed)}` };
}

/** Each state of the plan and of its steps as it comes, one line each, until the plan is over. */
async function followGoal(
  teller: StepReporter,
  { api, heard, homeId, light, lock }: GoodNightContext,
  wanted: string,
): Promise<void> {
  const planId = await teller.step('goal', async () => {
    const goal = { type: 'goal', payload: { text: 'Good night', home_id: homeId } };
    // The sidecar may just be starting.
    const options: RequestOptions = { body: goal, retryWhenBusy: true };
    const { status, body } = await api.request<{ status: string; mode: string; plan_id: string }>(
      'POST',
      '/v1/intent',
      options,
    );
    return {
      value: body.plan_id,
      told: `${status} ${body.status}, ${body.mode}: the sidecar thinks about plan ${body.plan_id}`,
    };
  });
  const names = new Map([light, lock].map(({ registration, simulated }) => [registration.device_id, simulated.name]));
  const told = new Set<LiveUpdate>();
  for (let status = ''; !FINAL_STATUSES.includes(status); ) {
    const update = await heard.waitFor((one) => one.plan_id === planId && !told.has(one), `more of plan ${planId}`);
    told.add(update);
    const { step_id, step_status } = update;
    if (typeof step_id !== 'string') status = String(update.status);
    await teller.step(String(step_status ?? status), async () => {
      const { plan } = await api.get<{ plan: PlanRecord }>(`/v1/plans/${planId}`);
      if (typeof step_id !== 'string') return { value: null, told: `the plan “${plan.name}”` };
      const step = plan.steps.find(({ id }) => id === step_id);
      if (step === undefined) throw new FailedError(`the plan has no step ${step_id}`);
      const why = step_status === 'failed' ? `: ${await failureReason(api, step)}` : '';
      return { value: null, told: `${names.get(step.device_id) ?? step.device_id} · ${step.action}${why}` };
    });
    if (FINAL_STATUSES.includes(status) && status !== wanted) throw new FailedError(`the plan ended as ${status}`);
  }
}

/** The device's own words where it has some. */
async function failureReason(api: Api, { command_id, error }: PlanStep): Promise<string> {
  if (command_id === undefined) return error?.detail ?? 'for no reason';
  const { command } = await api.get<{ command: CommandRecord }>(`/v1/commands/${command_id}`);
  return escapeForTerminal(typeof command.error === 'string' ? command.error : (error?.detail ?? 'for no reason'));
}

async function checkReportedStates(
  { api, light, lock }: GoodNightContext,
  wantedLight: JsonObject,
  wantedLock: JsonObject,
) {
  const told: string[] = [];
  for (const [member, wanted] of [
    [light, wantedLight],
    [lock, wantedLock],
  ] as const) {
    const { device } = await api.get<{ device: { state: JsonObject } }>(`/v1/devices/${member.registration.device_id}`);
    const reported = Object.fromEntries(Object.keys(wanted).map((name) => [name, device.state[name] ?? null]));
    if (JSON.stringify(reported) !== JSON.stringify(wanted))
      throw new FailedError(`${member.simulated.name}: ${JSON.stringify(reported)}`);
    told.push(`${member.simulated.name} ${JSON.stringify(reported)}`);
  }
  return { value: null, told: told.join(', ') };
}

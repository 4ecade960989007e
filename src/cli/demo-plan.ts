import type { RunningDevice } from '../device/homes/running-device.ts';
import { isFinalPlanStatus, type PlanStatus } from '../domain/plan.ts';
import type { JsonObject } from '../domain/values.ts';
import type { Api, RequestOptions } from './api.ts';
import type { CommandRecord } from './commands/device-commands.ts';
import type { PlanRecord, StepRecord } from './commands/plans.ts';
import { FailedError } from './errors.ts';
import type { RegisteredDevice } from './simulation.ts';
import type { StepReporter } from './step-reporter.ts';
import type { UpdateRecorder } from './update-recorder.ts';
import type { LiveUpdate } from './update-stream.ts';

interface GoodNightContext {
  api: Api;
  recorder: UpdateRecorder;
  homeId: string;
  light: RegisteredDevice;
  lock: RegisteredDevice;
  door: RunningDevice;
}

const ROUTINE = 'turn off the lights; then lock the front door';

/**
 * The sidecar plans for a goal: with the door open a step fails and the plan is rolled back, with the door shut it
 * succeeds.
 */
export async function runGoodNightGoal(reporter: StepReporter, context: GoodNightContext): Promise<void> {
  const { api } = context;
  reporter.heading('“Good night” while the front door is held open');
  await reporter.step('by hand', () => operateDoorByHand(context, 'hold_open'));
  await reporter.step('memory', async () => {
    await api.post('/v1/memories', { kind: 'routine', subject: 'Good night', content: ROUTINE });
    return { value: null, message: `saved a routine: ${ROUTINE}` };
  });
  await followGoal(reporter, context, 'rolled_back');
  await reporter.step('undone', () => checkReportedStates(context, { on: true }, { locked: false }));

  reporter.heading('“Good night” again, with the door shut');
  await reporter.step('by hand', () => operateDoorByHand(context, 'shut'));
  await followGoal(reporter, context, 'succeeded');
  await reporter.step('done', () => checkReportedStates(context, { on: false }, { locked: true }));
}

async function operateDoorByHand({ lock, door }: GoodNightContext, action: string) {
  const changed = lock.simulated.manualActions?.[action]?.();
  if (changed === undefined) throw new FailedError(`the simulated lock has no manual action '${action}'`);
  await door.device.report(changed);
  return { value: null, message: `the lock reports ${JSON.stringify(changed)}` };
}

/** Sends the goal and prints one line per status of its plan and steps, until the plan ends. */
async function followGoal(
  reporter: StepReporter,
  { api, recorder, homeId, light, lock }: GoodNightContext,
  wanted: string,
): Promise<void> {
  const planId = await reporter.step('goal', async () => {
    const goal = { type: 'goal', payload: { text: 'Good night', home_id: homeId } };
    // The sidecar may still be starting.
    const options: RequestOptions = { body: goal, retryWhenBusy: true };
    const { status, body } = await api.request<{ status: string; mode: string; plan_id: string }>(
      'POST',
      '/v1/intent',
      options,
    );
    return {
      value: body.plan_id,
      message: `${status} ${body.status}, ${body.mode}: the sidecar plans ${body.plan_id}`,
    };
  });
  const names = new Map([light, lock].map(({ registration, simulated }) => [registration.device_id, simulated.name]));
  const reported = new Set<LiveUpdate>();
  for (let status: PlanStatus = 'pending'; !isFinalPlanStatus(status); ) {
    const update = await recorder.waitFor(
      (one) => one.plan_id === planId && !reported.has(one),
      `an update of plan ${planId}`,
    );
    reported.add(update);
    const { step_id, step_status } = update;
    if (typeof step_id !== 'string') status = update.status as PlanStatus;
    await reporter.step(String(step_status ?? status), async () => {
      const { plan } = await api.get<{ plan: PlanRecord }>(`/v1/plans/${planId}`);
      if (typeof step_id !== 'string') return { value: null, message: `the plan “${plan.name}”` };
      const step = plan.steps.find(({ id }) => id === step_id);
      if (step === undefined) throw new FailedError(`the plan has no step ${step_id}`);
      const reason = step_status === 'failed' ? `: ${await failureReason(api, step)}` : '';
      return { value: null, message: `${names.get(step.device_id) ?? step.device_id} · ${step.action}${reason}` };
    });
    if (isFinalPlanStatus(status) && status !== wanted)
      throw new FailedError(`the plan is ${status}, expected ${wanted}`);
  }
}

/** The error that the device reported, or else that of the step. */
async function failureReason(api: Api, { command_id, error }: StepRecord): Promise<string> {
  if (command_id === undefined) return error?.detail ?? 'unknown reason';
  const { command } = await api.get<{ command: CommandRecord }>(`/v1/commands/${command_id}`);
  return typeof command.error === 'string' ? command.error : (error?.detail ?? 'unknown reason');
}

async function checkReportedStates(
  { api, light, lock }: GoodNightContext,
  wantedLight: JsonObject,
  wantedLock: JsonObject,
) {
  const matched: string[] = [];
  for (const [device, wanted] of [
    [light, wantedLight],
    [lock, wantedLock],
  ] as const) {
    const { device: record } = await api.get<{ device: { state: JsonObject } }>(
      `/v1/devices/${device.registration.device_id}`,
    );
    const reported = Object.fromEntries(Object.keys(wanted).map((name) => [name, record.state[name] ?? null]));
    if (JSON.stringify(reported) !== JSON.stringify(wanted))
      throw new FailedError(
        `${device.simulated.name} reports ${JSON.stringify(reported)}, expected ${JSON.stringify(wanted)}`,
      );
    matched.push(`${device.simulated.name} ${JSON.stringify(reported)}`);
  }
  return { value: null, message: matched.join(', ') };
}

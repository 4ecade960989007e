import { setTimeout as pause } from 'node:timers/promises';
import { isFinalCommandStatus } from '../domain/command.ts';
import type { Api } from './api.ts';
import type { CommandRecord, Dispatched } from './commands/device-commands.ts';
import { FailedError, RefusedError, UnreachableError } from './errors.ts';
import type { ServiceGroup } from './service-group.ts';
import type { RegisteredDevice } from './simulation.ts';
import type { StepReporter } from './step-reporter.ts';

const POLL_MS = 50;
const LIMIT_MS = 20_000;

/** Kills each process of the service in turn: the others go on with its tenants, and it is started again. */
export async function killEachProcess(
  reporter: StepReporter,
  { api, group, light }: { api: Api; group: ServiceGroup; light: RegisteredDevice },
): Promise<void> {
  reporter.heading(`Kill each of the ${group.pids.length} processes in turn`);
  for (const [n, pid] of group.pids.entries()) {
    await reporter.step('kill', async () => {
      process.kill(pid, 'SIGKILL');
      return { value: null, message: `process ${pid}, without a warning` };
    });
    await reporter.step('set_brightness', () => dimWhenPossible(api, light, 20 + n));
    await reporter.step('restarted', async () => {
      await until(() => Promise.resolve(group.complete || null));
      return { value: null, message: `${group.pids.length} processes serve again` };
    });
  }
}

/** Sends a command until it is accepted, and waits until the device has carried it out. */
async function dimWhenPossible(api: Api, { registration, simulated }: RegisteredDevice, level: number) {
  const from = performance.now();
  const path = `/v1/device/${registration.device_id}/command`;
  // One effect, however often it is sent: the first answer may be lost with the process.
  const headers = { 'idempotency-key': `brightness-${level}` };
  const body = { action: 'set_brightness', params: { level } };
  const dispatched = await until(async () => (await api.request<Dispatched>('POST', path, { body, headers })).body);
  const accepted = performance.now();
  const { status } = await until(async () => {
    const { command } = await api.get<{ command: CommandRecord }>(`/v1/commands/${dispatched.command_id}`);
    return isFinalCommandStatus(command.status) ? command : null;
  });
  if (status !== 'succeeded') throw new FailedError(`the command of ${simulated.name} ended as ${status}`);
  const seconds = (ms: number) => (ms / 1000).toFixed(1);
  const done = performance.now();
  return {
    value: null,
    message: `${level} %, accepted after ${seconds(accepted - from)} s, done after ${seconds(done - from)} s`,
  };
}

/** Repeats `attempt` until it gives a value; a connection that breaks and an answer of 503 are no failures. */
async function until<T>(attempt: () => Promise<T | null>): Promise<T> {
  const end = performance.now() + LIMIT_MS;
  for (;;) {
    try {
      const value = await attempt();
      if (value !== null) return value;
    } catch (error) {
      const isTemporary =
        error instanceof UnreachableError || (error instanceof RefusedError && error.problem.status === 503);
      if (!isTemporary || performance.now() >= end) throw error;
    }
    if (performance.now() >= end) throw new FailedError(`not within ${LIMIT_MS / 1000} s`);
    await pause(POLL_MS);
  }
}

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, inject } from 'vitest';
import type { Device, DeviceOptions } from '../../src/device/device.ts';
import { eventually, within } from './clock.ts';
import { connect, register } from './device.ts';
import type { ApiClient, ApiResponse } from './service.ts';

/** Enough for events in flight at most times; a faster load would need most of the processor. */
const PACE_MS = 100;
const PAGE = 200;
/** A command is written again after all failures of a test. */
const KEPT = { ttl_s: 300, timeout_s: 300 };
/** A device remembers 32 commands: it would execute a repeated command again if more were open. */
const MAX_OPEN = 16;

interface Sent {
  commandId: string;
  key: string;
  path: string;
  body: object;
  answer: object;
}

/** A device that reports an increasing counter, and its own records. */
interface Counter {
  id: string;
  device: Device;
  /** The last acknowledged number; each number is one report. */
  acknowledged: number;
  /** How often each command was received, and how often it was executed. */
  received: Map<string, number>;
  done: Map<string, number>;
  /** True for critical commands, which may be received at most once. */
  critical: boolean;
  commands: Sent[];
  /** The current waits of the device and of its caller, for errors. */
  waits: { device: string; caller: string };
}

/** Commands that were not executed, or whose outcome was not acknowledged. */
const openCommands = ({ commands, done, device, critical }: Counter): number =>
  critical ? 0 : commands.length - done.size + device.waiting;

/** The progress of a device and its caller, and their current waits. */
const progressOf = ({ id, device, acknowledged, critical, commands, waits }: Counter): string =>
  [
    `${critical ? 'lock' : 'light'} ${id} is ${device.online ? 'online' : 'offline'}`,
    `${device.waiting} of its messages are unacknowledged`,
    `it waits for ${waits.device} after ${acknowledged} reports`,
    `its caller waits for ${waits.caller} after ${commands.length} commands`,
  ].join(', ');

/** True, or an error that names what these devices wait for. */
function isNone(waiting: readonly Counter[]): true {
  if (waiting.length > 0) throw new Error(waiting.map(progressOf).join('; '));
  return true;
}

/**
 * A request is repeated as soon as its connection has broken, at another node if need be; the owner of its shard may not
 * have answered it yet. It asks to repeat it later then.
 */
const outcomeOf = (answer: ApiResponse | null): string => {
  if (answer === null) return 'no answer';
  const { status, body, headers } = answer;
  return body.code === 'CONFLICT' && headers.has('retry-after') ? 'still running' : `${status} ${body.code ?? ''}`;
};

type Owner = ApiClient & { homeId: string };

interface WorkloadOptions {
  device?: Partial<DeviceOptions>;
  /** How long a critical command takes: it is written and not answered. */
  criticalMs?: number;
  /** Builds that keep no history take part: each report that others keep is there once. */
  partsOfHistory?: boolean;
  /** Pause of a device between two reports, and of its caller between two commands. */
  paceMs?: number;
  /** Time limit of each wait; default: that of polls. */
  withinMs?: number;
}

/**
 * Devices that report a counter and callers that command them, both continuing through all failures of the service: a
 * device sends unacknowledged reports again, a caller repeats its request with the same key until it is answered.
 * `verify` compares the recorded answers with the final state of the service, and the acknowledged reports with the history.
 */
export class Workload {
  readonly counters: Counter[] = [];
  /** Number of unexpected responses, by status and code, or `no answer`, or `still running`. */
  readonly refused = new Map<string, number>();
  readonly #owner: Owner;
  readonly #options: WorkloadOptions;
  readonly #withinMs: number;
  readonly #running: Promise<void>[] = [];
  #stopped = false;
  #closed = false;

  constructor(owner: Owner, options: WorkloadOptions = {}) {
    this.#owner = owner;
    this.#options = options;
    this.#withinMs = options.withinMs ?? inject('pollMs');
  }

  /** Adds a light, or with `critical` a lock, and a caller that commands it. */
  async addDevice({ critical = false } = {}): Promise<Counter> {
    const registered = await register(this.#owner, { device_type: critical ? 'lock' : 'light' });
    const received = new Map<string, number>();
    const done = new Map<string, number>();
    const { criticalMs } = this.#options;
    const handle = async (_params: object, { commandId }: { commandId: string }) => {
      if (critical && criticalMs !== undefined) await pause(criticalMs);
      done.set(commandId, (done.get(commandId) ?? 0) + 1);
      return { result: 'done' };
    };
    const commands = { set_brightness: handle, unlock: handle };
    const device = await connect(registered, { ...this.#options.device, commands });
    device.on('command', ({ command_id: id }) => received.set(id, (received.get(id) ?? 0) + 1));
    const counter: Counter = {
      ...{ id: registered.device_id, device, acknowledged: 0, received, done, critical, commands: [] },
      waits: { device: 'its first report', caller: 'its first request' },
    };
    this.counters.push(counter);
    this.#running.push(this.#reportCounter(counter), this.#sendCommands(counter));
    return counter;
  }

  /** Resolves when every device and every caller has had `times` more acknowledgements or responses. */
  async waitForProgress(times = 2, withinMs = this.#withinMs): Promise<void> {
    const before = this.counters.map(({ acknowledged, commands }) => [acknowledged, commands.length] as const);
    await eventually(() => {
      const waiting = this.counters.filter(({ acknowledged, commands }, n) => {
        const [reports, answers] = before[n] ?? [0, 0];
        return acknowledged < reports + times || commands.length < answers + times;
      });
      return isNone(waiting);
    }, withinMs);
  }

  /** Stops, waits for outstanding requests, and compares. */
  async verify(): Promise<void> {
    await this.stop();
    for (const counter of this.counters) {
      const { id, acknowledged, commands, received, done, critical } = counter;
      const { device } = (await this.#get(`/v1/devices/${id}`)).body;
      expect({ n: device.state.n, stateVersion: device.state_version }).toEqual({
        n: acknowledged,
        stateVersion: acknowledged,
      });
      const reported = await this.#reportedNumbers(id);
      const all = Array.from({ length: acknowledged }, (_, n) => n + 1);
      expect(reported).toEqual(this.#options.partsOfHistory ? all.filter((n) => reported.includes(n)) : all);
      const statuses = await this.#commandStatuses(id);
      expect([...statuses.keys()].filter((one) => !commands.some(({ commandId }) => commandId === one))).toEqual([]);
      for (const { commandId } of commands) {
        const status = statuses.get(commandId);
        // A critical command marked as written is never written again: it may be lost, and then it times out.
        expect(critical ? ['succeeded', 'timed_out'] : ['succeeded']).toContain(status);
        if (status === 'succeeded') expect(done.get(commandId)).toBe(1);
        if (critical) expect(received.get(commandId) ?? 0).toBeLessThanOrEqual(1);
      }
      for (const { key, path, body, answer } of commands.slice(-2)) {
        const repeated = this.#owner.post(path, body, { 'idempotency-key': key });
        const again = await within(repeated, () => `the response to a repeated POST ${path}`, this.#withinMs);
        expect(again.body).toEqual(answer);
      }
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    // Together within one time limit, so that the one of the test does not end them without an error.
    const until = performance.now() + this.#withinMs;
    const remainingMs = () => Math.max(0, Math.round(until - performance.now()));
    await this.#ended();
    await eventually(
      () => isNone(this.counters.filter(({ device }) => !device.online || device.waiting > 0)),
      remainingMs(),
    );
    const open = ['dispatched', 'acknowledged', 'in_progress'];
    for (const { id } of this.counters) {
      await eventually(async () => {
        const statuses = [...(await this.#commandStatuses(id))].filter(([, status]) => open.includes(status));
        if (statuses.length > 0) throw new Error(`commands of device ${id} have no outcome: ${statuses.join('; ')}`);
        return true;
      }, remainingMs());
    }
  }

  async close(): Promise<void> {
    this.#stopped = true;
    this.#closed = true;
    const closed = Promise.all(this.counters.map(({ device }) => device.close(0)));
    await within(closed, () => 'the end of the connections of all devices', this.#withinMs);
    await this.#ended();
  }

  /** Resolves when no report and no request is outstanding. */
  async #ended(): Promise<void> {
    await within(Promise.all(this.#running), () => this.counters.map(progressOf).join('; '), this.#withinMs);
  }

  #get(path: string): Promise<ApiResponse> {
    return within(this.#owner.get(path), () => `the response to GET ${path}`, this.#withinMs);
  }

  async #reportCounter(counter: Counter): Promise<void> {
    for (let n = 1; !this.#stopped; n += 1) {
      counter.waits.device = `the acknowledgement of ${n}`;
      // False: the device was closed.
      if (!(await counter.device.report({ n }))) return;
      counter.acknowledged = n;
      counter.waits.device = 'its next report';
      await pause(this.#options.paceMs ?? PACE_MS);
    }
  }

  async #sendCommands(counter: Counter): Promise<void> {
    const path = `/v1/device/${counter.id}/command`;
    for (let n = 0; !this.#stopped; n += 1) {
      counter.waits.caller = `outcomes of its commands, of which ${MAX_OPEN} have none`;
      while (openCommands(counter) >= MAX_OPEN && !this.#stopped) await pause(PACE_MS);
      if (!counter.critical) {
        await this.#send(counter, path, { action: 'set_brightness', params: { level: n % 100 }, ...KEPT });
      } else {
        const token = await this.#dryRunToken(counter, path);
        if (token) await this.#send(counter, `${path}/confirm`, { dry_run_token: token });
      }
      await pause(this.#options.paceMs ?? PACE_MS);
    }
  }

  async #dryRunToken(counter: Counter, path: string): Promise<string | null> {
    const { answer } = await this.#sendUntilAnswered(counter, path, { action: 'unlock', timeout_s: 5 }, 409);
    return answer?.body.dry_run_token ?? null;
  }

  async #send(counter: Counter, path: string, body: object): Promise<void> {
    const { key, answer } = await this.#sendUntilAnswered(counter, path, body, 202);
    if (answer) counter.commands.push({ commandId: answer.body.command_id, key, path, body, answer: answer.body });
  }

  /** Repeats the request with one key until the response has `status`; null if the workload is closed first. */
  async #sendUntilAnswered(
    { waits }: Counter,
    path: string,
    body: object,
    status: number,
  ): Promise<{ key: string; answer: ApiResponse | null }> {
    const key = randomUUID();
    let previous = '';
    for (let attempt = 1; ; attempt += 1) {
      waits.caller = `${status} to attempt ${attempt} of POST ${path}${previous}`;
      const answer = await this.#owner.post(path, body, { 'idempotency-key': key }).catch(() => null);
      if (answer?.status === status && answer.body.command_id) {
        waits.caller = 'its next request';
        return { key, answer };
      }
      const outcome = outcomeOf(answer);
      this.refused.set(outcome, (this.refused.get(outcome) ?? 0) + 1);
      const why = answer?.body.detail ?? answer?.body.reason;
      previous = ` (the last one: ${outcome}${why === undefined ? '' : `, ${why}`})`;
      if (this.#closed) return { key, answer: null };
      await pause(PACE_MS);
    }
  }

  /** All numbers in the history of a device, in their order. */
  async #reportedNumbers(deviceId: string): Promise<number[]> {
    const numbers: number[] = [];
    for (let from: string | null = ''; from !== null; ) {
      const query = new URLSearchParams({ property: 'n', step: 'raw', ...(from !== '' && { from }) });
      const { history } = (await this.#get(`/v1/devices/${deviceId}/history?${query}`)).body;
      for (const { value } of history.samples) numbers.push(value);
      from = history.next_from;
    }
    return numbers;
  }

  /** Statuses of all commands of a device that were confirmed or need no confirmation. */
  async #commandStatuses(deviceId: string): Promise<Map<string, string>> {
    const statuses = new Map<string, string>();
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query = `limit=${PAGE}${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
      const { body } = await this.#get(`/v1/device/${deviceId}/commands?${query}`);
      for (const { id, status } of body.commands) if (status !== 'awaiting_confirmation') statuses.set(id, status);
      cursor = body.next_cursor;
    }
    return statuses;
  }
}

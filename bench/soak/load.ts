import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type DeviceIdentity, RawDevice } from '../support/raw-device.ts';

/*
 * The mixed load, in a separate process: callers that choose each request at random, and devices that answer their
 * commands after some milliseconds, with success or failure. It varies which rows are committed together.
 */

export interface Target {
  port: number;
  mqttPort: number;
  token: string;
  devices: DeviceIdentity[];
  callers: number;
  /** Maximum random pause of a caller after a request. */
  pauseMs: number;
}

const randomBelow = (most: number): number => Math.floor(Math.random() * most);
const randomItem = <T>(list: readonly T[]): T => list[randomBelow(list.length)] as T;

interface Answer {
  status: number;
  body: Record<string, unknown>;
}

class MixedLoad {
  readonly #target: Target;
  readonly #devices: RawDevice[] = [];
  #homeId = '';
  #ended = false;
  readonly #statuses: Record<number, number> = {};

  constructor(target: Target) {
    this.#target = target;
  }

  async start(): Promise<void> {
    const { body } = await this.#post('/homes', { home_name: 'Soak' });
    this.#homeId = String(body.id);
    for (const identity of this.#target.devices) {
      const device = new RawDevice(identity);
      device.onRefused = () => {}; // An acknowledgement of a command that was cancelled in the meantime.
      device.onCommand = ({ commandId }) => void this.#acknowledge(device, commandId);
      await device.open(this.#target.mqttPort, { commands: true });
      this.#devices.push(device);
    }
    for (let n = 0; n < this.#target.callers; n += 1) void this.#runCaller();
  }

  /** Number of answered requests so far. */
  get requests(): number {
    return Object.values(this.#statuses).reduce((sum, count) => sum + count, 0);
  }

  /** Ends the load; returns the number of responses by status. */
  end(): Record<number, number> {
    this.#ended = true;
    return this.#statuses;
  }

  async #runCaller(): Promise<void> {
    while (!this.#ended) {
      await randomItem(this.#requests)();
      await pause(randomBelow(this.#target.pauseMs));
    }
  }

  async #acknowledge(device: RawDevice, commandId: string): Promise<void> {
    await pause(randomBelow(20));
    const state = randomBelow(2) === 0 ? {} : { state: { on: randomBelow(2) === 0, n: randomBelow(9) } };
    const status = randomBelow(5) === 0 ? 'failed' : 'succeeded';
    device.publish('cmd_ack', { command_id: commandId, status, ...state }, () => {});
  }

  readonly #requests: (() => Promise<unknown>)[] = [
    () => this.#command(randomItem(['turn_on', 'identify', 'toggle', 'no_such_action'])),
    async () => {
      const { body } = await this.#command('reboot');
      if (body.command_id === undefined) return;
      await this.#post(`/confirmations/${body.command_id}/approve`);
    },
    async () => {
      const { body } = await this.#command('reboot');
      if (body.command_id !== undefined) await this.#post(`/commands/${body.command_id}/cancel`);
    },
    () => this.#plan(),
    async () => {
      const { body } = await this.#plan();
      const plan = body.plan as { id?: string } | undefined;
      if (plan?.id !== undefined) await this.#post(`/plans/${plan.id}/cancel`);
    },
    () => this.#call('PATCH', `/devices/${this.#deviceId()}`, { name: `name ${randomBelow(99)}` }),
    () => this.#registration(),
    () => this.#call('GET', `/devices?online=${randomBelow(2) === 0}&limit=10`),
    () => this.#call('GET', `/device/${this.#deviceId()}/commands?limit=10`),
    async () =>
      randomItem(this.#devices).publish('state', { state: { n: randomBelow(99), on: randomBelow(2) === 0 } }, () => {}),
    async () => randomItem(this.#devices).publish('heartbeat', {}, () => {}),
  ];

  #deviceId = (): string => randomItem(this.#target.devices).deviceId;

  #command(action: string): Promise<Answer> {
    return this.#post(`/device/${this.#deviceId()}/command`, { action });
  }

  #plan(): Promise<Answer> {
    const step = (id: string, depends: string[]) => ({
      ...{
        id,
        device_id: this.#deviceId(),
        action: randomItem(['identify', 'toggle']),
        params: {},
        depends_on: depends,
      },
      ...(randomBelow(2) === 0 && { compensation: { action: 'identify', params: {} } }),
    });
    const steps = [step('a', []), ...(randomBelow(2) === 0 ? [] : [step('b', randomBelow(2) === 0 ? ['a'] : [])])];
    return this.#post('/plans', { name: 'soak', ...(randomBelow(2) === 0 && { on_failure: 'rollback' }), steps });
  }

  /** Registers and removes a device, so that the number of devices stays the same. */
  async #registration(): Promise<void> {
    const { body } = await this.#post('/device/register', {
      device_type: randomItem(['light', 'thing']),
      home_id: this.#homeId,
    });
    const path = `/device/${body.device_id}`;
    const remove = () => this.#call('DELETE', `/devices/${body.device_id}`);
    if (randomBelow(2) === 0) await this.#post(`${path}/rotate-secret`);
    if (randomBelow(2) === 0) await remove(); // Rejected: the device is not revoked yet.
    await this.#post(`${path}/revoke`);
    await remove();
  }

  #post(path: string, body: object = {}): Promise<Answer> {
    return this.#call('POST', path, body, randomBelow(2) === 0 ? {} : { 'idempotency-key': randomUUID() });
  }

  async #call(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
    const response = await fetch(`http://127.0.0.1:${this.#target.port}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.#target.token}`, 'content-type': 'application/json', ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    this.#statuses[response.status] = (this.#statuses[response.status] ?? 0) + 1;
    return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : {} };
  }
}

let mix: MixedLoad | null = null;
process.on('message', (message: { start?: Target; count?: true; end?: true }) => {
  if (message.start) {
    mix = new MixedLoad(message.start);
    mix.start().then(() => process.send?.({ started: true }), fail);
  }
  if (message.count) process.send?.({ requests: mix?.requests ?? 0 });
  if (message.end) process.send?.({ statuses: mix?.end() ?? {} });
});
process.on('disconnect', () => process.exit(0));

function fail(error: Error): void {
  console.error(error);
  process.exit(1);
}

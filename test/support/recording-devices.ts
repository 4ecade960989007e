import type { Device } from '../../src/device/device.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { eventually } from './clock.ts';
import { connect, register } from './device.ts';
import type { ApiClient, ApiResponse } from './service.ts';

type Owner = ApiClient & { homeId: string };

/** Devices of a home by name, and their actions in order. */
export class RecordingDevices {
  readonly actions: string[] = [];
  readonly ids = new Map<string, string>();
  /** Devices that fail to turn off or to lock. */
  readonly broken = new Set<string>();
  /** Devices that do not finish an action until they are released. */
  readonly #held = new Map<string, { promise: Promise<void>; release: () => void }>();
  readonly #devices: Device[] = [];

  async addLight(owner: Owner, name: string, state: JsonObject = { on: true }): Promise<void> {
    const act = (on: boolean) => this.#act(name, on ? 'on' : 'off', { on });
    await this.#add(owner, name, 'smart_light', state, { turn_on: act(true), turn_off: act(false) });
  }

  async addDoorLock(owner: Owner, name: string): Promise<void> {
    const act = (locked: boolean) => this.#act(name, locked ? 'lock' : 'unlock', { locked });
    await this.#add(owner, name, 'door_lock', { locked: false }, { lock: act(true), unlock: act(false) });
  }

  /** Delays all actions of the device until `release`. */
  hold(name: string): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held.set(name, { promise, release: resolve });
  }

  release(name: string): void {
    this.#held.get(name)?.release();
  }

  async close(): Promise<void> {
    for (const { release } of this.#held.values()) release();
    await Promise.all(this.#devices.map((device) => device.close(0)));
  }

  #act(name: string, action: string, state: JsonObject) {
    return async () => {
      this.actions.push(`${name} ${action}`);
      await this.#held.get(name)?.promise;
      if (this.broken.has(name) && (action === 'off' || action === 'lock')) throw new Error('it is stuck');
      return { state };
    };
  }

  async #add(
    owner: Owner,
    name: string,
    device_type: string,
    state: JsonObject,
    commands: Record<string, () => Promise<{ state: JsonObject }>>,
  ): Promise<void> {
    const registered = await register(owner, { device_type, name });
    this.ids.set(name, registered.device_id);
    this.#devices.push(await connect(registered, { commands, state }));
    // Plans use the first reported state.
    await eventually(async () => {
      const { device } = (await owner.get(`/v1/devices/${registered.device_id}`)).body;
      return device.online && Object.keys(state).every((key) => device.state[key] === state[key]);
    });
  }
}

/** Submits a goal as soon as a sidecar is connected; returns the id of its plan. */
export async function submitGoal(owner: Owner, text: string, withinMs = 15_000): Promise<string> {
  const { body } = await eventually(async () => {
    const answer = await owner.post('/v1/intent', { type: 'goal', payload: { text, home_id: owner.homeId } });
    return answer.status === 503 ? null : answer;
  }, withinMs);
  if (body.status !== 'PENDING') throw new Error(JSON.stringify(body));
  return body.plan_id;
}

export const waitForPlan = (
  owner: ApiClient,
  id: string,
  status: string,
  withinMs = 20_000,
): Promise<ApiResponse['body']> =>
  eventually(async () => {
    const { plan } = (await owner.get(`/v1/plans/${id}`)).body;
    if (plan?.status !== status) throw new Error(JSON.stringify(plan));
    return plan;
  }, withinMs);

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Device } from '../../../src/device/device.ts';
import { connect, register } from '../../support/device.ts';
import { CyclicLoad, deviceOptions, isUnfinished, type NodeClients, type Owner, PACE_MS } from './load.ts';

const PLAN_NAME = 'Two steps';

/** Plans of two steps, and homes, each created with a key. */
export class PlanLoad extends CyclicLoad {
  readonly #owner: Owner;
  readonly #deviceId: string;
  readonly #device: Device;
  /** Accepted plans, and the number of requests with a key that may have been accepted. */
  readonly #plans = new Set<string>();
  readonly #homes = new Map<string, string>();
  #requested = 0;
  /** Number of executions by command. */
  readonly #executed: Map<string, number>;

  private constructor(parts: {
    owner: Owner;
    nodes: NodeClients;
    deviceId: string;
    device: Device;
    executed: Map<string, number>;
    paceMs: number;
  }) {
    super(parts.nodes, parts.paceMs);
    this.#owner = parts.owner;
    this.#deviceId = parts.deviceId;
    this.#device = parts.device;
    this.#executed = parts.executed;
    this.start();
  }

  /** `paceMs`: pause between two plans. */
  static async start(owner: Owner, nodes: NodeClients, { paceMs = PACE_MS } = {}): Promise<PlanLoad> {
    const registered = await register(owner, { device_type: 'light' });
    const executed = new Map<string, number>();
    const handle = (params: object, { commandId }: { commandId: string }) => {
      executed.set(commandId, (executed.get(commandId) ?? 0) + 1);
      // The plan continues when the device has reported the expected state.
      return { state: { on: true, brightness: (params as { level: number }).level } };
    };
    const device = await connect(
      registered,
      { ...deviceOptions, commands: { set_brightness: handle } },
      { online: false },
    );
    return new PlanLoad({ owner, nodes, deviceId: registered.device_id, device, executed, paceMs });
  }

  get plans(): readonly string[] {
    return [...this.#plans];
  }

  protected async cycle(): Promise<void> {
    await this.#createHome();
    const step = { device_id: this.#deviceId, action: 'set_brightness' };
    const steps = [
      { ...step, id: 'a', params: { level: 1 } },
      { ...step, id: 'b', params: { level: 2 }, depends_on: ['a'] },
    ];
    this.#requested += 1;
    const created = await this.keyed('/v1/plans', 202, { name: PLAN_NAME, steps });
    if (created === null) return;
    const { id } = created.body.plan;
    if (this.#plans.has(id)) this.violations.push(`two keys have the plan ${id}`);
    this.#plans.add(id);
    for (;;) {
      const read = await this.until(200, () => this.node.get(`/v1/plans/${id}`));
      if (read === null || !isUnfinished(read)) return;
      await pause(PACE_MS);
    }
  }

  async #createHome(): Promise<void> {
    const name = randomUUID();
    const created = await this.keyed('/v1/homes', 201, { home_name: name });
    if (created !== null) this.#homes.set(name, created.body.id);
  }

  async verify(): Promise<void> {
    for (const id of this.#plans) {
      const { status, body } = await this.#owner.get(`/v1/plans/${id}`);
      if (status !== 200) this.violations.push(`plan ${id} was accepted and is ${status}`);
      for (const step of body.plan?.steps ?? []) {
        const executions = this.#executed.get(step.command_id) ?? 0;
        if (step.status === 'succeeded' && executions !== 1) {
          this.violations.push(`command ${step.command_id} of plan ${id} was carried out ${executions} times`);
        }
      }
    }
    const plans = (await this.#all('/v1/plans', 'plans')).filter(({ name }) => name === PLAN_NAME);
    // The request that was in progress at the end may have been accepted.
    const unknown = plans.filter(({ id }) => !this.#plans.has(id as string)).length;
    if (unknown > this.#requested - this.#plans.size) this.violations.push(`${unknown} plans were not requested`);
    this.#verifyHomes(await this.#all('/v1/homes', 'homes'));
  }

  #verifyHomes(homes: readonly Record<string, unknown>[]): void {
    const found = Map.groupBy(homes, ({ home_name: name }) => name as string);
    for (const [name, id] of this.#homes) {
      const ids = (found.get(name) ?? []).map((home) => home.id);
      if (ids.length !== 1 || ids[0] !== id)
        this.violations.push(`home ${id} of one key is ${ids.join() || 'missing'}`);
    }
    for (const [name, same] of found)
      if (same.length > 1) this.violations.push(`one key has created two homes ${name}`);
  }

  async #all(path: string, member: string): Promise<Record<string, unknown>[]> {
    const all: Record<string, unknown>[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const { body } = await this.#owner.get(`${path}?limit=200${query}`);
      all.push(...body[member]);
      cursor = body.next_cursor ?? null;
    }
    return all;
  }

  close(): Promise<void> {
    return this.#device.close(0);
  }
}

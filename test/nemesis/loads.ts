import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Device } from '../../src/device/device.ts';
import { connect, register } from '../support/device.ts';
import type { ApiClient, ApiResponse } from '../support/service.ts';

const PACE_MS = 30;
/** A request that reached a node which hangs is given up, and sent again through another one. */
const REQUEST_TIMEOUT_MS = 8_000;

export type Owner = ApiClient & { homeId: string };

/** Work that continues through all failures of the nodes. */
export interface Load {
  /** Number of completed cycles. */
  readonly done: number;
  /** The last unexpected response, to explain why a cycle does not complete. */
  readonly last: string;
  readonly violations: string[];
  stop(): Promise<void>;
  /** Compares with the final state of the service; after `stop`. */
  verify(): Promise<void>;
  close(): Promise<void>;
}

/** The response, or null without one. */
const answerOf = (request: Promise<ApiResponse>): Promise<ApiResponse | null> =>
  Promise.race([request.catch(() => null), pause(REQUEST_TIMEOUT_MS, null)]);

abstract class Cycles implements Load {
  readonly violations: string[] = [];
  done = 0;
  last = '';
  protected stopped = false;
  protected paceMs = PACE_MS;
  #running: Promise<void> = Promise.resolve();

  stop(): Promise<void> {
    this.stopped = true;
    return this.#running;
  }

  abstract verify(): Promise<void>;
  abstract close(): Promise<void>;
  protected abstract cycle(): Promise<void>;

  protected start(): void {
    this.#running = this.#repeat();
  }

  async #repeat(): Promise<void> {
    while (!this.stopped) {
      await this.cycle();
      this.done += 1;
      await pause(this.paceMs);
    }
  }

  /** Repeats a request until the response has `status`; null if the load is stopped first. */
  protected async until(status: number, request: () => Promise<ApiResponse>): Promise<ApiResponse | null> {
    for (;;) {
      const answer = await answerOf(request());
      if (answer?.status === status) return answer;
      this.last =
        answer === null ? 'no answer' : `${answer.status} ${answer.body.code ?? ''} ${answer.body.detail ?? ''}`;
      if (this.stopped) return null;
      await pause(PACE_MS);
    }
  }
}

/** Plans of two steps, each started with a key until it is answered. */
export class PlanLoad extends Cycles {
  readonly #owner: Owner;
  readonly #deviceId: string;
  readonly #device: Device;
  /** Ids by key. */
  readonly #plans = new Map<string, string>();
  /** Number of executions by command. */
  readonly #executed: Map<string, number>;

  private constructor(owner: Owner, deviceId: string, device: Device, executed: Map<string, number>, paceMs: number) {
    super();
    this.paceMs = paceMs;
    this.#owner = owner;
    this.#deviceId = deviceId;
    this.#device = device;
    this.#executed = executed;
    this.start();
  }

  /** `paceMs`: pause between two plans. */
  static async start(owner: Owner, { paceMs = PACE_MS } = {}): Promise<PlanLoad> {
    const registered = await register(owner, { device_type: 'light' });
    const executed = new Map<string, number>();
    const handle = (_params: object, { commandId }: { commandId: string }) => {
      executed.set(commandId, (executed.get(commandId) ?? 0) + 1);
      return { result: 'done' };
    };
    const device = await connect(registered, { commands: { set_brightness: handle } }, { online: false });
    return new PlanLoad(owner, registered.device_id, device, executed, paceMs);
  }

  protected async cycle(): Promise<void> {
    const key = randomUUID();
    const step = { device_id: this.#deviceId, action: 'set_brightness', params: { level: 1 } };
    const steps = [
      { ...step, id: 'a' },
      { ...step, id: 'b', depends_on: ['a'] },
    ];
    const created = await this.until(202, () => this.#owner.post('/v1/plans', { steps }, { 'idempotency-key': key }));
    if (created === null) return;
    const { id } = created.body.plan;
    this.#plans.set(key, id);
    for (;;) {
      const read = await this.until(200, () => this.#owner.get(`/v1/plans/${id}`));
      if (read === null || !['running', 'pending'].includes(read.body.plan.status)) return;
      await pause(PACE_MS);
    }
  }

  async verify(): Promise<void> {
    for (const id of this.#plans.values()) {
      const { status, body } = await this.#owner.get(`/v1/plans/${id}`);
      if (status !== 200) this.violations.push(`plan ${id} was accepted and is ${status}`);
      for (const step of body.plan?.steps ?? []) {
        const executions = this.#executed.get(step.command_id) ?? 0;
        if (step.status === 'succeeded' && executions !== 1) {
          this.violations.push(`command ${step.command_id} of plan ${id} was carried out ${executions} times`);
        }
      }
    }
    if (new Set(this.#plans.values()).size !== this.#plans.size) this.violations.push('two keys have one plan');
  }

  close(): Promise<void> {
    return this.#device.close(0);
  }
}

/**
 * A device that is commanded, revoked and reinstated with a new key. From the response of a revocation to the request of
 * the reinstatement no node accepts a command, and the device receives none that it has not been sent before.
 */
export class RevocationLoad extends Cycles {
  readonly #owner: Owner;
  readonly #registered: ApiResponse['body'];
  readonly #device: { current: Device | null } = { current: null };
  readonly #received = new Set<string>();
  /** Written commands at the response of the last revocation; null while the device is not revoked. */
  #written: ReadonlySet<string> | null = null;
  readonly #writtenCommands: (deviceId: string) => Promise<readonly string[]>;

  private constructor(
    owner: Owner,
    registered: ApiResponse['body'],
    writtenCommands: RevocationLoad['writtenCommandsOf'],
  ) {
    super();
    this.#owner = owner;
    this.#registered = registered;
    this.#writtenCommands = writtenCommands;
  }

  /** `writtenCommands` reads from the database which commands of a device were released to it. */
  static async start(
    owner: Owner,
    writtenCommands: (deviceId: string) => Promise<readonly string[]>,
  ): Promise<RevocationLoad> {
    const load = new RevocationLoad(owner, await register(owner, { device_type: 'light' }), writtenCommands);
    await load.#connect(load.#registered);
    load.start();
    return load;
  }

  get writtenCommandsOf(): (deviceId: string) => Promise<readonly string[]> {
    return this.#writtenCommands;
  }

  async #connect(registered: ApiResponse['body']): Promise<void> {
    const device = await connect(registered, { commands: { set_brightness: () => ({}) } }, { online: false });
    device.on('command', ({ command_id: id }) => {
      this.#received.add(id);
      if (this.#written !== null && !this.#written.has(id)) {
        this.violations.push(`device ${registered.device_id} was sent command ${id} after its revocation`);
      }
    });
    this.#device.current = device;
  }

  #command(timeout_s = 60): Promise<ApiResponse> {
    const path = `/v1/device/${this.#registered.device_id}/command`;
    return this.#owner.post(path, { action: 'set_brightness', params: { level: 1 }, timeout_s });
  }

  protected async cycle(): Promise<void> {
    const { device_id: id } = this.#registered;
    for (let n = 0; n < 5; n++) if ((await this.until(202, () => this.#command())) === null) return;
    // Commands that are in progress while the device is revoked.
    const racing = [1, 2, 3].map(() => answerOf(this.#command()));
    if ((await this.until(200, () => this.#owner.post(`/v1/device/${id}/revoke`))) === null) return;
    this.#written = new Set(await this.#writtenCommands(id));
    await Promise.all(racing);
    for (let n = 0; n < 5; n++) {
      const answer = await answerOf(this.#command());
      if (answer?.status === 202) this.violations.push(`a command was accepted for device ${id} after its revocation`);
      const read = await answerOf(this.#owner.get(`/v1/devices/${id}`));
      if (read?.status === 200 && !read.body.device.revoked) this.violations.push(`device ${id} is not revoked`);
    }
    for (const written of await this.#writtenCommands(id)) {
      if (!this.#written.has(written)) this.violations.push(`command ${written} was released after the revocation`);
    }
    await this.#device.current?.close(0);
    this.#written = null;
    await this.#reinstate(id);
  }

  /** A reinstatement whose response was lost is repeated with its key, and then has the same secret. */
  async #reinstate(id: string): Promise<void> {
    const headers = { 'idempotency-key': randomUUID() };
    const path = `/v1/device/${id}/reinstate`;
    const answer = await this.until(200, () => this.#owner.post(path, { reason: 'found again' }, headers));
    if (answer === null) return;
    const { new_secret: device_secret, key_version } = answer.body;
    await this.#connect({ ...this.#registered, device_secret, key_version });
  }

  async verify(): Promise<void> {
    if (this.#received.size === 0) this.violations.push('no command was received by the device that is revoked');
  }

  async close(): Promise<void> {
    await this.#device.current?.close(0);
  }
}

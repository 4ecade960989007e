import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Device } from '../../src/device/device.ts';
import { connect, register } from '../support/device.ts';
import type { ApiClient, ApiResponse } from '../support/service.ts';

const PACE_MS = 20;
/** A request that reached a node which hangs is given up, and sent again through another one. */
const REQUEST_TIMEOUT_MS = 2_000;

/** A device notices within seconds that the network has forgotten its connection. */
export const deviceOptions = { keepaliveS: 3, connectTimeoutMs: 5_000 };

export type Owner = ApiClient & { homeId: string };

/** Clients of the nodes, in turn; they change when a node joins or leaves. */
export type NodeClients = () => readonly ApiClient[];

/** Work that continues through all failures of the nodes. */
export interface Load {
  /** Number of completed cycles. */
  readonly done: number;
  /** The last unexpected response, to explain why a cycle does not complete. */
  readonly last: string;
  readonly violations: string[];
  /** Responses that were older than what the client knew. */
  readonly staleReads: string[];
  stop(): Promise<void>;
  /** Compares with the final state of the service; after `stop`. */
  verify(): Promise<void>;
  close(): Promise<void>;
}

/** The response, or null without one. */
export const answerOf = (request: Promise<ApiResponse>, withinMs = REQUEST_TIMEOUT_MS): Promise<ApiResponse | null> =>
  Promise.race([request.catch(() => null), pause(withinMs, null)]);

abstract class Cycles implements Load {
  readonly violations: string[] = [];
  readonly staleReads: string[] = [];
  done = 0;
  last = '';
  protected stopped = false;
  readonly #nodes: NodeClients;
  readonly #paceMs: number;
  #turn = 0;
  #running: Promise<void> = Promise.resolve();

  constructor(nodes: NodeClients, paceMs: number = PACE_MS) {
    this.#nodes = nodes;
    this.#paceMs = paceMs;
  }

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

  protected get nodes(): readonly ApiClient[] {
    return this.#nodes();
  }

  /** The client of the next node: each request arrives at another one. */
  protected get node(): ApiClient {
    const { nodes } = this;
    this.#turn += 1;
    return nodes[this.#turn % nodes.length] as ApiClient;
  }

  async #repeat(): Promise<void> {
    while (!this.stopped) {
      await this.cycle();
      this.done += 1;
      await pause(this.#paceMs);
    }
  }

  /** Repeats a request until the response has `status`; null if the load is stopped first. */
  protected async until(
    status: number,
    request: () => Promise<ApiResponse>,
    withinMs?: number,
  ): Promise<ApiResponse | null> {
    for (;;) {
      const answer = await answerOf(request(), withinMs);
      if (answer?.status === status) return answer;
      this.last =
        answer === null ? 'no answer' : `${answer.status} ${answer.body.code ?? ''} ${answer.body.detail ?? ''}`;
      if (this.stopped) return null;
      await pause(PACE_MS);
    }
  }

  /**
   * Sends a request with one key to two nodes at the same time, and again to the next ones until it is answered, and
   * then to one that has not answered it. Both answers must be the same.
   */
  protected async keyed(path: string, status: number, body: object): Promise<ApiResponse | null> {
    const headers = { 'idempotency-key': randomUUID() };
    const send = () => this.node.post(path, body, headers);
    void answerOf(send());
    const first = await this.until(status, send);
    const second = first && (await this.until(status, send));
    if (first && second && JSON.stringify(first.body) !== JSON.stringify(second.body)) {
      this.violations.push(
        `one key has two answers at ${path}: ${JSON.stringify(first.body)} and ${JSON.stringify(second.body)}`,
      );
    }
    return first;
  }
}

const PLAN_NAME = 'Two steps';

/** Plans of two steps, and homes, each created with a key. */
export class PlanLoad extends Cycles {
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

/** Of the oracle: the response of a revocation of the device has arrived. */
type RecordAnswer = (deviceId: string) => Promise<unknown>;

/**
 * A device that is commanded, revoked and reinstated with a new key. From the response of a revocation to the request of
 * the reinstatement no node accepts a command or reads the device as active. The oracle compares what is written to it.
 */
export class RevocationLoad extends Cycles {
  readonly #registered: ApiResponse['body'];
  readonly #recordAnswer: RecordAnswer;
  #device: Device | null = null;
  #received = 0;

  private constructor(registered: ApiResponse['body'], nodes: NodeClients, recordAnswer: RecordAnswer) {
    super(nodes);
    this.#registered = registered;
    this.#recordAnswer = recordAnswer;
  }

  static async start(owner: Owner, nodes: NodeClients, recordAnswer: RecordAnswer): Promise<RevocationLoad> {
    const load = new RevocationLoad(await register(owner, { device_type: 'light' }), nodes, recordAnswer);
    await load.#connect(load.#registered);
    load.start();
    return load;
  }

  async #connect(registered: ApiResponse['body']): Promise<void> {
    const handle = (params: object) => ({ state: { on: true, brightness: (params as { level: number }).level } });
    const device = await connect(
      registered,
      { ...deviceOptions, commands: { set_brightness: handle } },
      { online: false },
    );
    device.on('command', () => {
      this.#received += 1;
    });
    this.#device = device;
  }

  #command(timeout_s = 60): Promise<ApiResponse> {
    const path = `/v1/device/${this.#registered.device_id}/command`;
    return this.node.post(path, { action: 'set_brightness', params: { level: 1 }, timeout_s });
  }

  protected async cycle(): Promise<void> {
    const { device_id: id } = this.#registered;
    for (let n = 0; n < 5; n++) if ((await this.until(202, () => this.#command())) === null) return;
    // Commands that are in progress while the device is revoked.
    const racing = [1, 2, 3].map(() => answerOf(this.#command()));
    if ((await this.until(200, () => this.node.post(`/v1/device/${id}/revoke`))) === null) return;
    await this.#recordAnswer(id);
    await Promise.all(racing);
    for (let n = 0; n < 4; n++) await this.#assertRevoked(id);
    await this.#device?.close(0);
    await this.#reinstate(id);
  }

  /** A request that is not answered in time may be executed after the reinstatement, so it is not compared. */
  async #assertRevoked(id: string): Promise<void> {
    const answer = await answerOf(this.#command());
    if (answer?.status === 202) this.violations.push(`a command was accepted for device ${id} after its revocation`);
    const read = await answerOf(this.node.get(`/v1/devices/${id}`));
    if (read?.status === 200 && !read.body.device.revoked) this.staleReads.push(`device ${id} is not revoked`);
  }

  /** A reinstatement whose response was lost is repeated with its key, and then has the same secret. */
  async #reinstate(id: string): Promise<void> {
    const answer = await this.keyed(`/v1/device/${id}/reinstate`, 200, { reason: 'found again' });
    if (answer === null) return;
    const { new_secret: device_secret, key_version } = answer.body;
    await this.#connect({ ...this.#registered, device_secret, key_version });
  }

  async verify(): Promise<void> {
    if (this.#received === 0) this.violations.push('no command was received by the device that is revoked');
  }

  async close(): Promise<void> {
    await this.#device?.close(0);
  }
}

/** Plans that wait for their device before the oldest is cancelled: they are in the memory of their node for a while. */
const WAITING_PLANS = 5;
const CANCEL_TIMEOUT_MS = 500;

/**
 * Plans whose device is offline. Each is cancelled through one node, and is cancelled from then on for every node, also
 * for one that has lost its shard and does not know it. A plan is read from memory, without the database.
 */
export class CancelLoad extends Cycles {
  readonly #deviceId: string;
  readonly #waiting: string[] = [];
  readonly #cancelled: string[] = [];

  private constructor(deviceId: string, nodes: NodeClients) {
    super(nodes);
    this.#deviceId = deviceId;
    this.start();
  }

  static async start(owner: Owner, nodes: NodeClients): Promise<CancelLoad> {
    return new CancelLoad((await register(owner, { device_type: 'light' })).device_id, nodes);
  }

  protected async cycle(): Promise<void> {
    const steps = [{ id: 'a', device_id: this.#deviceId, action: 'turn_on' }];
    while (this.#waiting.length <= WAITING_PLANS) {
      const created = await this.until(202, () => this.node.post('/v1/plans', { steps }), CANCEL_TIMEOUT_MS);
      if (created === null) return;
      this.#waiting.push(created.body.plan.id);
    }
    const id = this.#waiting.shift() as string;
    if ((await this.until(202, () => this.#cancel(id), CANCEL_TIMEOUT_MS)) === null) return;
    this.#cancelled.push(id);
    // A node that hangs answers later: its response is compared all the same.
    const reads = this.nodes.map((node) => this.#read(node, id));
    await Promise.race([Promise.all(reads), pause(CANCEL_TIMEOUT_MS)]);
  }

  /** 202, also if an attempt without an answer has cancelled it. */
  async #cancel(id: string): Promise<ApiResponse> {
    const { node } = this;
    const answer = await node.post(`/v1/plans/${id}/cancel`);
    if (answer.body.code !== 'ILLEGAL_TRANSITION') return answer;
    const read = await node.get(`/v1/plans/${id}`);
    return isUnfinished(read) ? answer : { ...read, status: 202 };
  }

  async #read(node: ApiClient, id: string): Promise<void> {
    const answer = await node.get(`/v1/plans/${id}`).catch(() => null);
    if (answer !== null && isUnfinished(answer))
      this.staleReads.push(`plan ${id} was cancelled and is read as ${answer.body.plan.status}`);
  }

  async verify(): Promise<void> {
    for (const id of this.#cancelled) await this.#read(this.node, id);
  }

  async close(): Promise<void> {}
}

const isUnfinished = ({ status, body }: ApiResponse): boolean =>
  status === 200 && ['running', 'pending'].includes(body.plan.status);

/** What a reader of a device knows to be stored: nothing that it reads later may be older. */
interface ReadDevice {
  id: string;
  /** Number of the last acknowledged report, which is the device's version. */
  acknowledged: number;
}

/**
 * A client that reads one device from each node in turn. A response must not be older than what the client knew when it
 * sent the request: the responses before, and the acknowledged reports of the device.
 */
export class ReadLoad {
  readonly staleReads: string[] = [];
  /** Number of responses. */
  done = 0;
  readonly #nodes: NodeClients;
  readonly #device: Readonly<ReadDevice>;
  readonly #running: Promise<void>;
  #known = 0;
  #stopped = false;

  constructor(nodes: NodeClients, device: Readonly<ReadDevice>) {
    this.#nodes = nodes;
    this.#device = device;
    this.#running = this.#repeat();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /** A node that hangs answers late: its response is compared all the same. */
  async #repeat(): Promise<void> {
    for (let turn = 0; !this.#stopped; turn += 1) {
      const nodes = this.#nodes();
      const read = this.#read(nodes[turn % nodes.length] as ApiClient);
      await Promise.race([read, pause(REQUEST_TIMEOUT_MS / 10)]);
      await pause(PACE_MS / 2);
    }
  }

  async #read(node: ApiClient): Promise<void> {
    const known = Math.max(this.#known, this.#device.acknowledged);
    const answer = await node.get(`/v1/devices/${this.#device.id}`).catch(() => null);
    if (answer?.status !== 200) return;
    const { state_version: version } = answer.body.device;
    if (version < known)
      this.staleReads.push(`device ${this.#device.id} was read as version ${version}, but ${known} was known`);
    this.#known = Math.max(this.#known, version);
    this.done += 1;
  }
}

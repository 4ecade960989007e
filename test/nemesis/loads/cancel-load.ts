import { setTimeout as pause } from 'node:timers/promises';
import { register } from '../../support/device.ts';
import type { ApiClient, ApiResponse } from '../../support/service.ts';
import { CyclicLoad, isUnfinished, type NodeClients, type Owner } from './load.ts';

/** Plans that wait for their device before the oldest is cancelled: they are in the memory of their node for a while. */
const WAITING_PLANS = 5;
const CANCEL_TIMEOUT_MS = 500;

/**
 * Plans whose device is offline. Each is cancelled through one node, and is cancelled from then on for every node, also
 * for one that has lost its shard and does not know it. A plan is read from memory, without the database.
 */
export class CancelLoad extends CyclicLoad {
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

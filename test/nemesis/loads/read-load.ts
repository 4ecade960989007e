import { setTimeout as pause } from 'node:timers/promises';
import type { ApiClient } from '../../support/service.ts';
import { type NodeClients, PACE_MS, REQUEST_TIMEOUT_MS } from './load.ts';

/** A device and its stored version as far as a reader knows it: nothing that it reads later may be older. */
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

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { ApiClient, ApiResponse } from '../../support/service.ts';

export const PACE_MS = 20;
/** A request that reached a node which hangs is given up, and sent again through another one. */
export const REQUEST_TIMEOUT_MS = 2_000;

/** A device notices within seconds that its connection is half-open. */
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

export abstract class CyclicLoad implements Load {
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

/** Whether the response shows a plan that has not ended. */
export const isUnfinished = ({ status, body }: ApiResponse): boolean =>
  status === 200 && ['running', 'pending'].includes(body.plan.status);

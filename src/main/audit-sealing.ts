import type { Milliseconds } from '../domain/values.ts';
import type { Services } from '../operations/operation.ts';

const INTERVAL_MS: Milliseconds = 60_000;

interface AuditSealingParts extends Pick<Services, 'auditChain' | 'log'> {
  /** True on one of the nodes that share the database. */
  isLeader(): boolean;
}

/** Seals the audited entries of all tenants once a minute. */
export class AuditSealing {
  readonly #parts: AuditSealingParts;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> | null = null;
  #stopped = false;

  constructor(parts: AuditSealingParts) {
    this.#parts = parts;
    this.#timer = setInterval(() => this.#seal(), INTERVAL_MS).unref();
  }

  /** Resolves when nothing is being sealed: a pass over all tenants ends after the current one. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  #seal(): void {
    const { auditChain, log, isLeader } = this.#parts;
    if (this.#running !== null || !isLeader()) return;
    this.#running = auditChain
      .sealAll(() => this.#stopped)
      .catch((error) => log.warn({ err: error }, 'audit sealing failed; retrying'))
      .finally(() => {
        this.#running = null;
      });
  }
}

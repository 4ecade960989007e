import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import type { Log } from '../domain/log.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { WaitingContracts } from '../store/postgres/waiting-contracts.ts';

const CHECK_MS: Milliseconds = 2_000;
/** Statements of all nodes wait while an attempt waits for the lock of a table. */
const RETRY: BackoffLimits = { firstMs: CHECK_MS, maxMs: 60_000 };

interface ContractMigrationParts {
  contracts: Pick<WaitingContracts, 'ids' | 'apply' | 'refresh'>;
  log: Log;
  /** True on one of the nodes that share the database. */
  isLeader(): boolean;
}

/** Applies migrations that waited for nodes of older builds to end. One node applies them, the others wait for it. */
export class ContractMigrations {
  readonly #parts: ContractMigrationParts;
  #timer: NodeJS.Timeout | null = null;
  #checking: Promise<void> | null = null;
  #failures = 0;
  #stopped = false;

  constructor(parts: ContractMigrationParts) {
    this.#parts = parts;
    const { contracts, log } = parts;
    if (contracts.ids.length === 0) return;
    log.warn({ migrations: contracts.ids }, 'migrations wait until no node of an older build is alive');
    this.#checkAfter(CHECK_MS);
  }

  /** Number of migrations that wait. */
  get waiting(): number {
    return this.#parts.contracts.ids.length;
  }

  /** Resolves when none is being applied. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#checking;
  }

  #checkAfter(delay: Milliseconds): void {
    this.#timer = setTimeout(() => {
      this.#checking = this.#check();
    }, delay).unref();
  }

  async #check(): Promise<void> {
    const delay = await this.#applyOrRefresh().then(
      () => this.#succeeded(),
      (error: unknown) => this.#failed(error),
    );
    if (!this.#stopped && this.waiting > 0) this.#checkAfter(delay);
  }

  #succeeded(): Milliseconds {
    this.#failures = 0;
    return CHECK_MS;
  }

  #failed(error: unknown): Milliseconds {
    this.#failures += 1;
    const delay = backoffDelay(this.#failures, RETRY);
    this.#parts.log.warn({ err: error, retry_ms: delay }, 'waiting migrations not applied; retrying');
    return delay;
  }

  async #applyOrRefresh(): Promise<void> {
    const { contracts, isLeader, log } = this.#parts;
    if (!isLeader()) return contracts.refresh();
    const applied = await contracts.apply();
    if (applied.length > 0) log.info({ migrations: applied }, 'migrations applied that waited for older nodes');
  }
}

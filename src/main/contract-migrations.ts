import type { Log } from '../domain/log.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { WaitingContracts } from '../store/postgres/waiting-contracts.ts';

const CHECK_MS: Milliseconds = 2_000;

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

  constructor(parts: ContractMigrationParts) {
    this.#parts = parts;
    const { contracts, log } = parts;
    if (contracts.ids.length === 0) return;
    log.warn({ migrations: contracts.ids }, 'migrations wait until no node of an older build is alive');
    this.#timer = setInterval(() => this.#check(), CHECK_MS).unref();
  }

  /** Number of migrations that wait. */
  get waiting(): number {
    return this.#parts.contracts.ids.length;
  }

  /** Resolves when none is being applied. */
  async stop(): Promise<void> {
    if (this.#timer) clearInterval(this.#timer);
    await this.#checking;
  }

  #check(): void {
    if (this.#checking !== null) return;
    this.#checking = this.#applyOrRefresh()
      .catch((error: unknown) => this.#parts.log.warn({ err: error }, 'waiting migrations not applied; retrying'))
      .finally(() => {
        this.#checking = null;
        if (this.waiting === 0 && this.#timer) clearInterval(this.#timer);
      });
  }

  async #applyOrRefresh(): Promise<void> {
    const { contracts, isLeader, log } = this.#parts;
    if (!isLeader()) return contracts.refresh();
    const applied = await contracts.apply();
    if (applied.length > 0) log.info({ migrations: applied }, 'migrations applied that waited for older nodes');
  }
}

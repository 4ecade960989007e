import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '../domain/log.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { ActorRef } from '../machines/outputs.ts';
import { isSuspendedSnapshot } from '../machines/tenant-record.ts';
import type { EventBus } from './event-bus.ts';
import type { Supervisor } from './supervisor.ts';

const RETRY_MS: Milliseconds = 1_000;

/**
 * Emits `tenant.changed` with the stored state of tenants whose commit has an unknown outcome and was therefore not
 * released. Without it, the sessions of a tenant that the commit has suspended would stay open, and their messages would be
 * accepted. If the commit did not happen, subscribers receive the earlier state again.
 */
export class UnreleasedTenants {
  readonly #actors: Pick<Supervisor, 'read' | 'peek'>;
  readonly #eventBus: EventBus;
  readonly #log: Log;
  #stopped = false;

  constructor(parts: { supervisor: Pick<Supervisor, 'read' | 'peek'>; eventBus: EventBus; log: Log }) {
    this.#actors = parts.supervisor;
    this.#eventBus = parts.eventBus;
    this.#log = parts.log;
  }

  /** Never rejects: retries until the store answers. */
  async announce(actors: readonly ActorRef[]): Promise<void> {
    await Promise.all(actors.filter(({ kind }) => kind === 'tenant').map((ref) => this.#announceTenant(ref)));
  }

  stop(): void {
    this.#stopped = true;
  }

  async #announceTenant(ref: ActorRef): Promise<void> {
    while (!this.#stopped) {
      try {
        const read = await this.#actors.read(ref);
        // A later commit may have been released since the read.
        const tenant = this.#actors.peek(ref) ?? read;
        if (tenant === null) return;
        const suspended = isSuspendedSnapshot(tenant.snapshot);
        this.#eventBus.emit({ type: 'tenant.changed', tenantId: ref.id, suspended, at: tenant.since });
        return;
      } catch (error) {
        this.#log.warn({ err: error, tenant: ref.id }, 'state of a tenant after an unknown commit not read; retrying');
        await pause(RETRY_MS, undefined, { ref: false });
      }
    }
  }
}

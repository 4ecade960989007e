import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';

/** Exports that one tenant, or the service, can run at the same time on this node. */
const MAX_OF_TENANT = 2;
/** Exports of all tenants on this node; those of the service are beside them. Each reads the database as fast as its client takes the entries. */
const MAX_OF_NODE = 8;
const RETRY_AFTER_S = 10;

/** Limits the exports of the audit log that run at the same time in this process. */
export class AuditExports implements SizeReporter {
  /** By tenant; null is the service. */
  readonly #running = new Map<Uuid | null, number>();
  #ofTenants = 0;

  /** Begins an export of a tenant, or of the service; the result ends it, and is called once. */
  begin(tenantId: Uuid | null): Outcome<() => void> {
    const running = this.#running.get(tenantId) ?? 0;
    if (running >= MAX_OF_TENANT) {
      const holder = tenantId === null ? 'the service' : 'this tenant';
      return refuse(
        'RATE_LIMIT_EXCEEDED',
        `The limit of simultaneous audit exports of ${holder} is ${MAX_OF_TENANT}. Wait until one has ended.`,
        { retryAfterS: RETRY_AFTER_S },
      );
    }
    if (tenantId !== null && this.#ofTenants >= MAX_OF_NODE) {
      return refuse('OVERLOADED', `The limit of simultaneous audit exports of a node is ${MAX_OF_NODE}. Retry later.`, {
        retryAfterS: RETRY_AFTER_S,
      });
    }
    this.#running.set(tenantId, running + 1);
    if (tenantId !== null) this.#ofTenants += 1;
    return done(() => this.#end(tenantId));
  }

  sizes(): CollectionSizes {
    return { audit_exports: this.#running.size };
  }

  #end(tenantId: Uuid | null): void {
    const running = (this.#running.get(tenantId) ?? 0) - 1;
    if (running > 0) this.#running.set(tenantId, running);
    else this.#running.delete(tenantId);
    if (tenantId !== null) this.#ofTenants -= 1;
  }
}

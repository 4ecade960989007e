import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';

/**
 * `ofTenant`: of one tenant, or of the service. `ofNode`: of all tenants on this node; those of the service are beside them.
 * `retryAfterS`: seconds.
 */
const limits = {
  // Each reads the database as fast as its client takes the entries.
  audit_exports: { ofTenant: 2, ofNode: 8, retryAfterS: 10, title: 'audit exports' },
  history_exports: { ofTenant: 2, ofNode: 8, retryAfterS: 10, title: 'history exports' },
  // Each has an answer of some megabytes in memory.
  history_queries: { ofTenant: 4, ofNode: 16, retryAfterS: 1, title: 'history queries' },
} as const;
export type LimitedWork = keyof typeof limits;

/** Limits the exports, or other work of one kind, that run at the same time in this process. */
export class ConcurrencyLimiter implements SizeReporter {
  readonly #kind: LimitedWork;
  /** By tenant; null is the service. */
  readonly #running = new Map<Uuid | null, number>();
  #ofTenants = 0;

  constructor(kind: LimitedWork) {
    this.#kind = kind;
  }

  /** Begins work for a tenant, or for the service; the result ends it, and is called once. */
  begin(tenantId: Uuid | null): Outcome<() => void> {
    const { ofTenant, ofNode, retryAfterS, title } = limits[this.#kind];
    const running = this.#running.get(tenantId) ?? 0;
    if (running >= ofTenant) {
      const holder = tenantId === null ? 'the service' : 'this tenant';
      return refuse(
        'RATE_LIMIT_EXCEEDED',
        `The limit of simultaneous ${title} of ${holder} is ${ofTenant}. Wait until one has ended.`,
        { retryAfterS },
      );
    }
    if (tenantId !== null && this.#ofTenants >= ofNode)
      return refuse('OVERLOADED', `The limit of simultaneous ${title} of a node is ${ofNode}. Retry later.`, {
        retryAfterS,
      });
    this.#running.set(tenantId, running + 1);
    if (tenantId !== null) this.#ofTenants += 1;
    return done(() => this.#end(tenantId));
  }

  sizes(): CollectionSizes {
    return { [this.#kind]: this.#running.size };
  }

  #end(tenantId: Uuid | null): void {
    const running = (this.#running.get(tenantId) ?? 0) - 1;
    if (running > 0) this.#running.set(tenantId, running);
    else this.#running.delete(tenantId);
    if (tenantId !== null) this.#ofTenants -= 1;
  }
}

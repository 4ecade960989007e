import type { CollectionSizes, SizeReporter } from '../../../domain/collection-sizes.ts';
import { done, type Outcome, refuse } from '../../../domain/refusals.ts';
import type { Caller } from '../../../operations/operation.ts';

/** Open WebSockets of one credential, and of one tenant. */
export interface ConnectionQuotaLimits {
  perCredential: number;
  perTenant: number;
}

export const defaultConnectionQuota: ConnectionQuotaLimits = { perCredential: 200, perTenant: 2_000 };

/** Counts the WebSockets of each credential and tenant, so that none of them holds all that the process can. */
export class ConnectionQuota implements SizeReporter {
  readonly #limits: ConnectionQuotaLimits;
  readonly #open = new Map<string, number>();

  constructor(limits: Partial<ConnectionQuotaLimits> = {}) {
    this.#limits = { ...defaultConnectionQuota, ...limits };
  }

  /** Counts a connection; returns the function to call once when it is closed. Refused at a limit, which it names. */
  enter({ principal, token, tenantId, user }: Caller): Outcome<() => void> {
    // Without a user the connection is closed at once.
    if (user === null) return done(() => {});
    const { perCredential, perTenant } = this.#limits;
    const credential = `credential ${token?.id ?? principal.key ?? principal.id}`;
    const tenant = `tenant ${tenantId}`;
    if (this.#count(credential) >= perCredential) return tooMany('of one credential', perCredential);
    // Platform operators may have none.
    const holders = tenantId === null ? [credential] : [credential, tenant];
    if (tenantId !== null && this.#count(tenant) >= perTenant) return tooMany('of one tenant', perTenant);
    for (const key of holders) this.#open.set(key, this.#count(key) + 1);
    return done(() => {
      for (const key of holders) {
        const left = this.#count(key) - 1;
        if (left > 0) this.#open.set(key, left);
        else this.#open.delete(key);
      }
    });
  }

  sizes(): CollectionSizes {
    return { websocket_holders: this.#open.size };
  }

  #count(key: string): number {
    return this.#open.get(key) ?? 0;
  }
}

const tooMany = (holder: string, limit: number) =>
  refuse('RATE_LIMIT_EXCEEDED', `The limit of open WebSockets ${holder} is ${limit}.`);

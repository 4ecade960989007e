import type { Duplex } from 'node:stream';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Milliseconds } from '../../domain/values.ts';
import { networkOf } from './client-address.ts';

export interface UnauthenticatedLimits {
  /** Connections of one network: an IPv4 address, or a /64 of IPv6. */
  perNetwork: number;
  /** Connections of all networks together. */
  total: number;
  /** A connection that is older may be ended for a new one: a client that signs in at once has done so by then. */
  signInMs: Milliseconds;
}

/** Limits of WebSockets whose credential comes in their first message. */
export const unauthenticatedWebSockets: UnauthenticatedLimits = { perNetwork: 64, total: 2_000, signInMs: 2_000 };

export const TOO_MANY_UNAUTHENTICATED: Refusal = {
  code: 'OVERLOADED',
  detail: 'Too many connections of this address, or of all addresses, have not signed in.',
  retryAfterS: 2,
};

interface Entry {
  network: string | null;
  since: Milliseconds;
}

/**
 * Connections whose client has not signed in yet. At a limit the oldest one is destroyed for a new one if it has been
 * silent for longer than a sign-in takes; otherwise the new one is refused. So silent connections keep nobody out, and
 * many clients that connect at once do not end each other's sign-ins.
 */
export class UnauthenticatedConnections {
  readonly #limits: UnauthenticatedLimits;
  readonly #now: () => Milliseconds;
  /** In the order in which they were admitted, as the sets of the networks. */
  readonly #entries = new Map<Duplex, Entry>();
  readonly #networks = new Map<string, Set<Duplex>>();

  /** `now`: monotonic time. */
  constructor(limits: UnauthenticatedLimits, now: () => Milliseconds = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /**
   * Returns the function to call when the client has signed in; null if the connection is refused at a limit. `address`:
   * the client's; null if it is not known, so that only the limit of all networks applies.
   */
  admit(connection: Duplex, address: string | null): (() => void) | null {
    const network = address === null ? null : networkOf(address);
    const ofNetwork = network === null ? undefined : this.#networks.get(network);
    const hasRoom =
      (ofNetwork === undefined || ofNetwork.size < this.#limits.perNetwork || this.#endOldest(ofNetwork)) &&
      (this.#entries.size < this.#limits.total || this.#endOldest(this.#entries.keys()));
    if (!hasRoom) return null;
    this.#entries.set(connection, { network, since: this.#now() });
    if (network !== null) {
      const connections = this.#networks.get(network) ?? new Set();
      this.#networks.set(network, connections.add(connection));
    }
    const remove = () => this.#remove(connection);
    connection.once('close', remove);
    return () => {
      connection.off('close', remove);
      remove();
    };
  }

  sizes(): CollectionSizes {
    return { unauthenticated_connections: this.#entries.size, unauthenticated_networks: this.#networks.size };
  }

  #endOldest(connections: Iterable<Duplex>): boolean {
    for (const oldest of connections) {
      const { since } = this.#entries.get(oldest) as Entry;
      if (this.#now() - since < this.#limits.signInMs) return false;
      this.#remove(oldest);
      oldest.destroy();
      return true;
    }
    return false;
  }

  #remove(connection: Duplex): void {
    const entry = this.#entries.get(connection);
    if (entry === undefined) return;
    this.#entries.delete(connection);
    if (entry.network === null) return;
    const connections = this.#networks.get(entry.network);
    connections?.delete(connection);
    if (connections?.size === 0) this.#networks.delete(entry.network);
  }
}

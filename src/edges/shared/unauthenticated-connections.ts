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
  /** A connection that has sent no credential and is older may be ended for a new one. */
  silentMs: Milliseconds;
}

/** Limits of WebSockets whose credential comes in their first message. */
export const unauthenticatedWebSockets: UnauthenticatedLimits = { perNetwork: 64, total: 2_000, silentMs: 5_000 };

export const TOO_MANY_UNAUTHENTICATED: Refusal = {
  code: 'OVERLOADED',
  detail: 'Too many connections of this address, or of all addresses, have not signed in.',
  retryAfterS: 2,
};

/** A connection that has not signed in. It is counted until `signedIn` is called, or it is closed. */
export interface PendingSignIn {
  /** The client has sent its credential: from now on its connection is not ended for others. */
  received(): void;
  signedIn(): void;
}

/** Events of a stream whose client signs in: its credential has arrived, and was accepted. */
export const CREDENTIAL_RECEIVED = 'credentialReceived';
export const SIGNED_IN = 'signedIn';

interface Entry {
  network: string | null;
  since: Milliseconds;
}

/**
 * Connections whose client has not signed in yet. At a limit the oldest one that has sent no credential for `silentMs` is
 * destroyed for a new one; if there is none, the new one is refused. So silent connections keep no client out, and many
 * clients that connect at once do not end each other's sign-ins, however long these take.
 */
export class UnauthenticatedConnections {
  readonly #limits: UnauthenticatedLimits;
  readonly #now: () => Milliseconds;
  /** All of them. */
  readonly #entries = new Map<Duplex, Entry>();
  /** Those without a credential, in the order in which they were admitted; as the sets of the networks. */
  readonly #silent = new Set<Duplex>();
  readonly #networks = new Map<string, { count: number; silent: Set<Duplex> }>();

  /** `now`: monotonic time. */
  constructor(limits: UnauthenticatedLimits, now: () => Milliseconds = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /**
   * Null if the connection is refused at a limit, or has ended. `address`: the client's; null if it is not known, so that
   * only the limit of all networks applies.
   */
  admit(connection: Duplex, address: string | null): PendingSignIn | null {
    if (connection.destroyed || connection.closed) return null;
    const network = address === null ? null : networkOf(address);
    if (!this.#makeRoom(network)) return null;
    this.#entries.set(connection, { network, since: this.#now() });
    this.#silent.add(connection);
    if (network !== null) {
      const { count, silent } = this.#networks.get(network) ?? { count: 0, silent: new Set() };
      this.#networks.set(network, { count: count + 1, silent: silent.add(connection) });
    }
    const remove = () => this.#remove(connection);
    connection.once('close', remove);
    return {
      received: () => this.#markReceived(connection),
      signedIn: () => {
        connection.off('close', remove);
        remove();
      },
    };
  }

  sizes(): CollectionSizes {
    return {
      unauthenticated_connections: this.#entries.size,
      unauthenticated_silent: this.#silent.size,
      unauthenticated_networks: this.#networks.size,
    };
  }

  #makeRoom(network: string | null): boolean {
    const ofNetwork = network === null ? undefined : this.#networks.get(network);
    const { perNetwork, total } = this.#limits;
    if (ofNetwork !== undefined && ofNetwork.count >= perNetwork && !this.#endOldest(ofNetwork.silent)) return false;
    return this.#entries.size < total || this.#endOldest(this.#silent);
  }

  #endOldest(silent: ReadonlySet<Duplex>): boolean {
    const [oldest] = silent;
    if (oldest === undefined) return false;
    const { since } = this.#entries.get(oldest) as Entry;
    if (this.#now() - since < this.#limits.silentMs) return false;
    this.#remove(oldest);
    oldest.destroy();
    return true;
  }

  #markReceived(connection: Duplex): void {
    this.#silent.delete(connection);
    const network = this.#entries.get(connection)?.network ?? null;
    if (network !== null) this.#networks.get(network)?.silent.delete(connection);
  }

  #remove(connection: Duplex): void {
    const entry = this.#entries.get(connection);
    if (entry === undefined) return;
    this.#markReceived(connection);
    this.#entries.delete(connection);
    if (entry.network === null) return;
    const { count, silent } = this.#networks.get(entry.network) as { count: number; silent: Set<Duplex> };
    if (count === 1) this.#networks.delete(entry.network);
    else this.#networks.set(entry.network, { count: count - 1, silent });
  }
}

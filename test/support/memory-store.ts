import type { Store } from '../../src/store/contract.ts';
import { MemoryActorStore } from './memory-actor-store.ts';
import { MemoryDatabase } from './memory-store/database.ts';
import type { StatementTransport } from './memory-store/session.ts';
import { openMemoryStore } from './memory-store/store.ts';

/**
 * A store in memory for tests of what stands on it, with its tables at hand, its actors' commits to hold or fail, and calls
 * that fail on demand.
 */
export class MemoryStore implements Store {
  readonly database = new MemoryDatabase();
  /** How often the store was asked for a user: what identity may not do for each request. */
  userReads = 0;
  /** Throws what every call but those for actors then throws. */
  failCalls: (() => never) | null = null;
  reachable = true;

  readonly #wire: StatementTransport = async ({ name }, effect) => {
    if (name === 'ping' && !this.reachable) throw new Error('unreachable');
    this.failCalls?.();
    if (name === 'identity.user') this.userReads++;
    return effect();
  };
  readonly #store = openMemoryStore(this.database, { transport: this.#wire });

  readonly batchesInFlight = this.#store.batchesInFlight;
  readonly preparedStatements = this.#store.preparedStatements;
  readonly sizes = this.#store.sizes;
  readonly actors = new MemoryActorStore(this.database);
  readonly devices = this.#store.devices;
  readonly commands = this.#store.commands;
  readonly plans = this.#store.plans;
  readonly proposals = this.#store.proposals;
  readonly records = this.#store.records;
  readonly identity = this.#store.identity;
  readonly keys = this.#store.keys;
  readonly members = this.#store.members;
  readonly idempotency = this.#store.idempotency;
  readonly administration = this.#store.administration;
  readonly firmware = this.#store.firmware;
  readonly audit = this.#store.audit;
  readonly inspection = this.#store.inspection;
  readonly memories = this.#store.memories;
  readonly retention = this.#store.retention;
  readonly sessionTokens = this.#store.sessionTokens;
  ping = this.#store.ping;
  readonly close = this.#store.close;

  // Tables that tests look into or change behind the service's back.
  readonly users = this.database.tables.users;
  readonly homes = this.database.tables.homes;
  readonly rooms = this.database.tables.rooms;
  readonly apiKeys = this.database.tables.apiKeys;
  readonly revoked = this.database.tables.revokedTokens;
  readonly agentTokens = this.database.tables.presentedTokens;
  readonly idempotencyRows = this.database.tables.idempotency;
}

import type { Store } from '../../src/store/contract.ts';
import { MemoryActorStore } from './memory-actor-store.ts';
import { MemoryDatabase } from './memory-store/database.ts';
import type { StatementTransport } from './memory-store/session.ts';
import { openMemoryStore } from './memory-store/store.ts';

/**
 * A store in memory for tests of the layers above it: its tables are accessible, actor commits can be held or failed,
 * and other calls can fail on demand.
 */
export class MemoryStore implements Store {
  readonly database = new MemoryDatabase();
  /** Number of user lookups, which must not happen for each request. */
  userReads = 0;
  /** Called before every call except those for actors; throws the error of the call. */
  failCalls: (() => never) | null = null;
  reachable = true;

  readonly #transport: StatementTransport = async ({ name }, effect) => {
    if (name === 'ping' && !this.reachable) throw new Error('unreachable');
    this.failCalls?.();
    if (name === 'identity.user') this.userReads++;
    return effect();
  };
  readonly #store = openMemoryStore(this.database, { transport: this.#transport });

  readonly batchesInFlight = this.#store.batchesInFlight;
  readonly preparedStatements = this.#store.preparedStatements;
  readonly sizes = this.#store.sizes;
  readonly actors = new MemoryActorStore(this.database);
  readonly devices = this.#store.devices;
  readonly commands = this.#store.commands;
  readonly plans = this.#store.plans;
  readonly proposals = this.#store.proposals;
  readonly changeRequests = this.#store.changeRequests;
  readonly records = this.#store.records;
  readonly identity = this.#store.identity;
  readonly keys = this.#store.keys;
  readonly members = this.#store.members;
  readonly history = this.#store.history;
  readonly idempotency = this.#store.idempotency;
  readonly administration = this.#store.administration;
  readonly firmware = this.#store.firmware;
  readonly deviceCas = this.#store.deviceCas;
  readonly firmwareSigning = this.#store.firmwareSigning;
  readonly artifactFiles = this.#store.artifactFiles;
  readonly audit = this.#store.audit;
  readonly auditChain = this.#store.auditChain;
  readonly inspection = this.#store.inspection;
  readonly dashboards = this.#store.dashboards;
  readonly memories = this.#store.memories;
  readonly retention = this.#store.retention;
  readonly sealedValues = this.#store.sealedValues;
  readonly sessionTokens = this.#store.sessionTokens;
  readonly timeline = this.#store.timeline;
  readonly userSessions = this.#store.userSessions;
  ping = this.#store.ping;
  readonly close = this.#store.close;

  // Tables that tests read or change without the service.
  readonly users = this.database.tables.users;
  readonly homes = this.database.tables.homes;
  readonly rooms = this.database.tables.rooms;
  readonly apiKeys = this.database.tables.apiKeys;
  readonly revoked = this.database.tables.revokedTokens;
  readonly agentTokens = this.database.tables.presentedTokens;
  readonly idempotencyRows = this.database.tables.idempotency;
}

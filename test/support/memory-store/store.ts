import type { Store } from '../../../src/store/contract.ts';
import { actorStore } from './actors.ts';
import { administrationStore } from './administration.ts';
import { apiKeyStore } from './api-keys.ts';
import { memoryArtifactFiles } from './artifact-files.ts';
import { auditStore } from './audit.ts';
import { auditChainStore } from './audit-chain.ts';
import { changeRequestStore } from './change-requests.ts';
import { commandStore } from './commands.ts';
import { dashboardStore } from './dashboards.ts';
import type { MemoryDatabase } from './database.ts';
import { deviceCaStore } from './device-cas.ts';
import { deviceStore } from './devices.ts';
import { firmwareStore } from './firmware.ts';
import { firmwareSigningStore } from './firmware-signing.ts';
import { historyStore } from './history.ts';
import { idempotencyStore } from './idempotency.ts';
import { identityStore } from './identity.ts';
import { inspectionStore } from './inspection.ts';
import { memberStore } from './members.ts';
import { agentMemoryStore } from './memories.ts';
import { planStore } from './plans.ts';
import { proposalStore } from './proposals.ts';
import { recordStore } from './records.ts';
import { retentionStore } from './retention.ts';
import { sealedValueStore } from './sealed-values.ts';
import { Session, type SessionOptions } from './session.ts';
import { sessionTokenStore } from './session-tokens.ts';
import { timelineStore } from './timeline.ts';
import { userSessionStore } from './user-sessions.ts';

export interface MemoryStoreOptions extends SessionOptions {
  batchesInFlight?: number;
}

/**
 * A process's store on a database in memory, with the semantics of PostgreSQL: it passes the suites of `test/store`.
 * Several stores on one database act as several processes; closing a store leaves the database as it is.
 */
export function openMemoryStore(database: MemoryDatabase, options: MemoryStoreOptions = {}): Store {
  const session = new Session(database, options);
  return {
    actors: actorStore(session),
    devices: deviceStore(session),
    commands: commandStore(session),
    plans: planStore(session),
    proposals: proposalStore(session),
    changeRequests: changeRequestStore(session),
    records: recordStore(session),
    identity: identityStore(session),
    keys: apiKeyStore(session),
    members: memberStore(session),
    idempotency: idempotencyStore(session),
    administration: administrationStore(session),
    dashboards: dashboardStore(session),
    firmware: firmwareStore(session),
    deviceCas: deviceCaStore(session),
    firmwareSigning: firmwareSigningStore(session),
    artifactFiles: memoryArtifactFiles(session),
    history: historyStore(session),
    audit: auditStore(session),
    auditChain: auditChainStore(session),
    inspection: inspectionStore(session),
    memories: agentMemoryStore(session),
    retention: retentionStore(session),
    sealedValues: sealedValueStore(session),
    sessionTokens: sessionTokenStore(session),
    timeline: timelineStore(session),
    userSessions: userSessionStore(session),
    batchesInFlight: options.batchesInFlight ?? 1,
    preparedStatements: () => 0,
    sizes: () => ({}),
    ping: () => session.read('ping', [], () => undefined),
    async close() {},
  };
}

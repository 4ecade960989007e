import { type Store, StoreUnavailable } from '../contract.ts';
import { actorStore } from './actors.ts';
import { administrationStore } from './administration.ts';
import { apiKeyStore } from './api-keys.ts';
import { databaseArtifactFiles } from './artifact-files.ts';
import { auditStore } from './audit.ts';
import { auditChainStore } from './audit-chain.ts';
import { changeRequestStore } from './change-requests.ts';
import { CoalescedReads } from './coalesced-reads.ts';
import { commandStore } from './commands.ts';
import { dashboardStore } from './dashboards.ts';
import type { Database } from './database.ts';
import { deviceCaStore } from './device-cas.ts';
import { DeviceCounts } from './device-counts.ts';
import { deviceStore } from './devices.ts';
import type { Fence } from './fence.ts';
import { firmwareStore } from './firmware.ts';
import { firmwareSigningStore } from './firmware-signing.ts';
import { historyStore } from './history.ts';
import { idempotencyStore } from './idempotency.ts';
import { identityStore } from './identity.ts';
import { inspectionStore } from './inspection.ts';
import { LastActivities } from './last-activity.ts';
import { memberStore } from './members.ts';
import { agentMemoryStore } from './memories.ts';
import { planStore } from './plans.ts';
import { proposalStore } from './proposals.ts';
import { recordStore } from './records.ts';
import { retentionStore } from './retention.ts';
import { sealedValueStore } from './sealed-values.ts';
import { sessionTokenStore } from './session-tokens.ts';
import { timelineStore } from './timeline.ts';
import { userSessionStore } from './user-sessions.ts';

/** The store on a migrated database; closing it closes the database. Group commits are checked by `fence`. */
/** `generation` changes when tenants are added to this process. */
export function createStore(database: Database, generation = () => 0, fence: Fence | null = null): Store {
  const counts = new DeviceCounts(generation);
  const activities = new LastActivities(generation);
  const pages = new CoalescedReads();
  const artifactFiles = databaseArtifactFiles(database);
  return {
    actors: actorStore(database, counts, fence),
    devices: deviceStore(database, { pages, counts, activities }),
    deviceCas: deviceCaStore(database),
    commands: commandStore(database),
    plans: planStore(database),
    proposals: proposalStore(database),
    changeRequests: changeRequestStore(database),
    records: recordStore(database),
    identity: identityStore(database),
    keys: apiKeyStore(database),
    members: memberStore(database),
    idempotency: idempotencyStore(database),
    administration: administrationStore(database),
    dashboards: dashboardStore(database),
    firmware: firmwareStore(database),
    firmwareSigning: firmwareSigningStore(database),
    artifactFiles,
    history: historyStore(database, fence),
    audit: auditStore(database),
    auditChain: auditChainStore(database),
    inspection: inspectionStore(database),
    memories: agentMemoryStore(database),
    retention: retentionStore(database),
    sealedValues: sealedValueStore(database),
    sessionTokens: sessionTokenStore(database),
    timeline: timelineStore(database),
    userSessions: userSessionStore(database),
    batchesInFlight: database.embedded ? 1 : 2,
    preparedStatements: () => database.preparedStatements,
    sizes: () => ({
      ...{ ...database.sizes(), ...counts.sizes(), ...activities.sizes(), ...pages.sizes() },
      ...artifactFiles.sizes(),
    }),

    async ping(timeoutMs) {
      let timer: NodeJS.Timeout | undefined;
      const before = database.answeredStatements;
      const late = new Promise<void>((resolve, reject) => {
        // After a pause of this process, timers run before an answer that arrived in the meantime is read.
        const check = () => {
          // The ping may wait for a connection of the pool. Any answered statement shows that the database is
          // reachable.
          if (database.answeredStatements > before) resolve();
          else reject(new StoreUnavailable(`no answer from the database within ${timeoutMs} ms`));
        };
        timer = setTimeout(() => setImmediate(check), timeoutMs);
      });
      try {
        await Promise.race([database.read({ text: 'select 1 as one', noRetry: true }), late]);
      } finally {
        clearTimeout(timer);
      }
    },

    close: () => database.close(),
  };
}

import type { Runtime } from '../../../src/actors/runtime.ts';
import { DAY_MS } from '../../../src/domain/day.ts';
import { HistoryUpkeep } from '../../../src/main/history-upkeep.ts';
import type { Services } from '../../../src/operations/operation.ts';
import { HistoryCompaction } from '../../../src/services/history-compaction.ts';
import type { ProcessParts } from './process.ts';

/** Small, so that all of it happens many times in a run. */
const LIMITS = { dueReports: 3, maxRows: 4, mergeBytes: 200, deleteRows: 2, maxPauseMs: 1 };
const TIMING = { checkMs: 1_500, sweepMs: 9_000 };
const DROP_MS = 8_000;
/** All days are complete for compaction, although devices still report, and reports are dropped once they are compacted. */
const COMPACTION_AHEAD_MS = 2 * DAY_MS;
const DROP_AHEAD_MS = 3 * DAY_MS;

/** The upkeep of the history as in `main/active-service.ts`. */
export class SimulatedHistory {
  readonly dropExpired: HistoryUpkeep['dropExpired'];
  readonly #upkeep: HistoryUpkeep;
  readonly #timer: NodeJS.Timeout;

  constructor(runtime: Runtime, services: Services, { world, owner, time, store, log }: ProcessParts) {
    const clock = { now: () => time.clock.now() + COMPACTION_AHEAD_MS };
    const compaction = new HistoryCompaction({ store, clock, log, shards: () => null, limits: LIMITS });
    runtime.actors.subscribe('device.state', ({ deviceId, tenantId, report }) =>
      compaction.recordReport(deviceId, tenantId, Buffer.byteLength(JSON.stringify(report))),
    );
    runtime.actors.subscribe('history.imported', ({ deviceId, tenantId }) =>
      compaction.recordImport(deviceId, tenantId),
    );
    const { historyRetention: retention } = services.settings;
    const parts = { history: store.history, compaction, retention, clock, log, isLeader: () => true, timing: TIMING };
    this.#upkeep = new HistoryUpkeep(parts);
    this.dropExpired = (now) => this.#upkeep.dropExpired(now + DROP_AHEAD_MS);
    this.#timer = setInterval(() => {
      this.dropExpired(time.clock.now()).catch((error: Error) => world.note(owner.name, `drop: ${error.message}`));
    }, DROP_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#upkeep.stop();
  }
}

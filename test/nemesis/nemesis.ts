import { randomUUID } from 'node:crypto';
import { shardOf } from '../../src/domain/shards.ts';
import { eventually } from '../support/clock.ts';
import type { ApiClient } from '../support/service.ts';
import { newOwner } from '../support/spawn-service.ts';
import { Workload } from '../support/workload.ts';
import { NemesisCluster, type NodeTiming, type Place, PROGRESS_MS } from './cluster.ts';
import { nextFault, type Random, seconds } from './faults.ts';
import { CancelLoad } from './loads/cancel-load.ts';
import { answerOf, deviceOptions, type Load, type NodeClients, PACE_MS } from './loads/load.ts';
import { PlanLoad } from './loads/plan-load.ts';
import { ReadLoad } from './loads/read-load.ts';
import { RevocationLoad } from './loads/revocation-load.ts';
import { commandsOf, commitViolations, missingPlans, recordAnsweredRevocation, watchCommits } from './oracle.ts';

const CRITICAL_MS = 100;
/** How long a caller waits for a response before it repeats its request. */
const OWNER_TIMEOUT_MS = 10_000;

/** The service broke a promise; not that it was slow or did not respond. */
export class Violation extends Error {}

interface NemesisOptions {
  nodes: number;
  tenants: number;
  timing: NodeTiming;
  /** Environment of the nodes, which selects a planted defect. */
  nodeEnv?: Record<string, string>;
}

/** Nodes under load, with one fault at a time, and everything that clients were promised. */
export class Nemesis {
  /** A line for each round. */
  readonly log: string[] = [];
  readonly #cluster: NemesisCluster;
  readonly #workloads: Workload[] = [];
  readonly #reads: ReadLoad[] = [];
  readonly #plans: PlanLoad[] = [];
  readonly #revocations: RevocationLoad[] = [];
  readonly #cancels: CancelLoad[] = [];

  private constructor(cluster: NemesisCluster) {
    this.#cluster = cluster;
  }

  static async start({ nodes, tenants, timing, nodeEnv }: NemesisOptions): Promise<Nemesis> {
    const nemesis = new Nemesis(await NemesisCluster.start(nodes, timing, nodeEnv));
    try {
      await watchCommits(nemesis.#cluster.databaseUrl);
      await nemesis.#cluster.whenSettled();
      for (let n = 0; n < tenants; n++) await nemesis.#addTenant(n);
      return nemesis;
    } catch (error) {
      await nemesis.close();
      throw error;
    }
  }

  /** The logs of the nodes, for a run that fails. */
  get folder(): string {
    return this.#cluster.folder;
  }

  /** One fault, then the time until everything makes progress again. */
  async round(random: Random, names?: readonly string[]): Promise<void> {
    const began = performance.now();
    const fault = nextFault(random, names);
    const { places } = this.#cluster;
    const place = places[Math.floor(random() * places.length)] as Place;
    const details = await fault.run({ cluster: this.#cluster, place, random });
    const what = `${fault.name}${details === '' ? '' : `, ${details}`}`;
    await this.#assertNoViolations(what);
    const healed = performance.now();
    await this.#progress().catch(async (error: Error) => {
      await this.#assertNoViolations(what);
      throw new Error(`no progress after ${what}: ${error.message}`);
    });
    await this.#assertNoViolations(what);
    const now = performance.now();
    this.log.push(`${what}: progress after ${seconds(now - healed)}, round of ${seconds(now - began)}`);
  }

  /** Compares everything that was acknowledged with the final state. */
  async verify(): Promise<void> {
    await this.#cluster.whenSettled();
    for (const load of [...this.#reads, ...this.#cycles]) await load.stop();
    for (const load of this.#cycles) await load.verify();
    for (const load of this.#workloads) {
      await load.stop();
      await load.verify().catch((error: Error) => {
        throw new Violation(error.message);
      });
    }
    await this.#assertNoViolations('the end');
  }

  async close(): Promise<void> {
    for (const load of [...this.#reads, ...this.#cycles]) void load.stop();
    await Promise.all([...this.#workloads, ...this.#cycles].map((load) => load.close()));
    await this.#cluster.close();
  }

  /** For a run without failures. */
  removeLogs(): void {
    this.#cluster.removeLogs();
  }

  get #cycles(): readonly Load[] {
    return [...this.#plans, ...this.#revocations, ...this.#cancels];
  }

  async #assertNoViolations(after: string): Promise<void> {
    const violations = [
      ...this.#cycles.flatMap((load) => load.violations),
      ...this.#staleReads(),
      ...this.#executionViolations(),
      // The database may be unavailable for a moment.
      ...(await eventually(() => commitViolations(this.#cluster.databaseUrl), PROGRESS_MS)),
      ...(await eventually(() => this.#rowViolations(), PROGRESS_MS)),
    ];
    if (violations.length === 0) return;
    throw new Violation(`${[...new Set(violations)].slice(0, 10).join('; ')} after ${after}`);
  }

  /**
   * A node whose connections lead to a primary that was replaced and runs on serves from memory until it notices
   * (docs/operations.md requires STONITH): only what is stored is compared then.
   */
  #staleReads(): string[] {
    const loads = [...this.#reads, ...this.#cycles];
    const found = loads.flatMap((load) => load.staleReads);
    for (const load of loads) load.staleReads.length = 0;
    const hadTwoPrimaries = this.#cluster.hadTwoPrimaries;
    this.#cluster.hadTwoPrimaries = false;
    return hadTwoPrimaries ? [] : found;
  }

  #executionViolations(): string[] {
    const counters = this.#workloads.flatMap((load) => load.counters);
    return counters.flatMap(({ id, critical, received, done }) =>
      [...(critical ? received : done)]
        .filter(([, times]) => times > 1)
        .map(([command, times]) => `command ${command} of device ${id} was sent or carried out ${times} times`),
    );
  }

  /** Differences between what was accepted and the rows of the database. */
  async #rowViolations(): Promise<string[]> {
    const url = this.#cluster.databaseUrl;
    const counters = this.#workloads.flatMap((load) => load.counters);
    const acceptedOf = () => counters.flatMap(({ commands }) => commands.map(({ commandId }) => commandId));
    const accepted = acceptedOf();
    const plans = this.#plans.flatMap((load) => load.plans);
    const stored = await commandsOf(
      url,
      counters.map(({ id }) => id),
    );
    const missing = accepted.filter((id) => !stored.has(id));
    // A caller has at most one request that is not answered.
    const answered = new Set(acceptedOf());
    const unknown = [...stored].filter((id) => !answered.has(id));
    return [
      ...missing.map((id) => `command ${id} was accepted and is lost`),
      ...(await missingPlans(url, plans)).map((id) => `plan ${id} was accepted and is lost`),
      ...(unknown.length > counters.length ? [`${unknown.length} commands of ${counters.length} requests`] : []),
    ];
  }

  /** Everything makes progress. */
  async #progress(): Promise<void> {
    const before = this.#cycles.map(({ done }) => done);
    const reads = this.#reads.map(({ done }) => done);
    await Promise.all(this.#workloads.map((load) => this.#workloadProgress(load)));
    await eventually(() => {
      const waiting = this.#cycles.filter(({ done }, n) => done <= (before[n] ?? 0));
      if (waiting.length > 0) {
        throw new Error(waiting.map((load) => `${load.constructor.name}: ${load.last}`).join('; '));
      }
      return this.#reads.every(({ done }, n) => done > (reads[n] ?? 0));
    }, PROGRESS_MS);
  }

  async #workloadProgress(load: Workload): Promise<void> {
    const refused = new Map(load.refused);
    await load.waitForProgress(1, PROGRESS_MS).catch((error: Error) => {
      const since = [...load.refused].map(
        ([outcome, times]) => `${outcome} ${times - (refused.get(outcome) ?? 0)} times`,
      );
      const devices = load.counters.map(
        ({ device }) => `${device.online ? 'online' : 'offline'}, ${device.waiting} waiting`,
      );
      throw new Error(`${error.message}: requests: ${since.join(', ')}; devices: ${devices.join(', ')}`);
    });
  }

  async #addTenant(n: number): Promise<void> {
    const cluster = this.#cluster;
    // While shards move to the nodes that have just joined, requests are refused for a moment.
    const repeated = <T>(work: () => Promise<T>): Promise<NonNullable<T>> => eventually(work, PROGRESS_MS);
    const caller = (token: string) => withRepeatedReads(cluster.clientOf(token));
    const owner = await repeated(() => newOwner(cluster.deployment, caller, `owner-${randomUUID()}`));
    const nodes: NodeClients = () => cluster.places.map((place) => cluster.nodeClient(place, owner.token));
    const load = new Workload(owner, {
      ...{ device: deviceOptions, criticalMs: CRITICAL_MS, paceMs: PACE_MS, withinMs: PROGRESS_MS },
    });
    const counter = await repeated(() => load.addDevice());
    await repeated(() => load.addDevice({ critical: true }));
    this.#workloads.push(load);
    this.#reads.push(new ReadLoad(nodes, counter));
    // Until the database answers: what is committed before is not compared.
    const recordAnswer = (deviceId: string) =>
      eventually(() => recordAnsweredRevocation(cluster.databaseUrl, deviceId).then(() => true), PROGRESS_MS);
    this.#plans.push(await repeated(() => PlanLoad.start(owner, nodes)));
    this.#revocations.push(await repeated(() => RevocationLoad.start(owner, nodes, recordAnswer)));
    this.#cancels.push(await repeated(() => CancelLoad.start(owner, nodes)));
    this.log.push(`tenant ${n} in shard ${shardOf(owner.tenantId)}`);
  }
}

/**
 * A client that gives up a request that is not answered in time, and reads again if the connection breaks or the service
 * is unavailable for a moment.
 */
const withRepeatedReads = (api: ApiClient): ApiClient => ({
  ...api,
  async post(...request) {
    const answer = await answerOf(api.post(...request), OWNER_TIMEOUT_MS);
    if (answer === null) throw new Error('no answer');
    return answer;
  },
  get: (...request) =>
    eventually(async () => {
      const answer = await answerOf(api.get(...request), OWNER_TIMEOUT_MS);
      return answer?.status === 503 ? null : answer;
    }, PROGRESS_MS),
});

import { shardOf } from '../../src/domain/shards.ts';
import { eventually } from '../support/clock.ts';
import type { ApiClient } from '../support/service.ts';
import { newOwner } from '../support/spawn-service.ts';
import { Workload } from '../support/workload.ts';
import { NemesisCluster, type NodeTiming, type Place, PROGRESS_MS } from './cluster.ts';
import { nextFault, type Random, seconds } from './faults.ts';
import { type Load, type NodeClients, PlanLoad, ReadLoad, RevocationLoad } from './loads.ts';
import { commitViolations, missingIn, recordAnsweredRevocation, watchCommits } from './oracle.ts';

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
  /** Commands that were found in the database, by the number of each device's. */
  readonly #found = new Map<string, number>();

  private constructor(cluster: NemesisCluster) {
    this.#cluster = cluster;
  }

  static async start({ nodes, tenants, timing, nodeEnv }: NemesisOptions): Promise<Nemesis> {
    const nemesis = new Nemesis(await NemesisCluster.start(nodes, timing, nodeEnv));
    await watchCommits(nemesis.#cluster.databaseUrl);
    for (let n = 0; n < tenants; n++) await nemesis.#addTenant(n);
    return nemesis;
  }

  /** What the nodes reported, if a run fails. */
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
    return [...this.#plans, ...this.#revocations];
  }

  async #assertNoViolations(after: string): Promise<void> {
    const violations = [
      ...[...this.#reads, ...this.#cycles].flatMap((load) => load.violations),
      ...this.#executionViolations(),
      // The database may be unavailable for a moment.
      ...(await eventually(() => commitViolations(this.#cluster.databaseUrl), PROGRESS_MS)),
      ...(await eventually(() => this.#lost(), PROGRESS_MS)),
    ];
    if (violations.length === 0) return;
    throw new Violation(`${[...new Set(violations)].slice(0, 10).join('; ')} after ${after}`);
  }

  #executionViolations(): string[] {
    const counters = this.#workloads.flatMap((load) => load.counters);
    return counters.flatMap(({ id, critical, received, done }) =>
      [...(critical ? received : done)]
        .filter(([, times]) => times > 1)
        .map(([command, times]) => `command ${command} of device ${id} was sent or carried out ${times} times`),
    );
  }

  /** Accepted commands and plans that the database does not have. */
  async #lost(): Promise<string[]> {
    const url = this.#cluster.databaseUrl;
    const commands = this.#workloads.flatMap((load) =>
      load.counters.flatMap((counter) => {
        const { id, commands } = counter;
        const from = this.#found.get(id) ?? 0;
        this.#found.set(id, commands.length);
        return commands.slice(from).map(({ commandId }) => commandId);
      }),
    );
    const plans = this.#plans.flatMap((load) => load.plans);
    return [
      ...(await missingIn(url, 'commands', commands)).map((id) => `command ${id} was accepted and is lost`),
      ...(await missingIn(url, 'plans', plans)).map((id) => `plan ${id} was accepted and is lost`),
    ];
  }

  /** Everything makes progress. */
  async #progress(): Promise<void> {
    const before = this.#cycles.map(({ done }) => done);
    const reads = this.#reads.map(({ done }) => done);
    for (const load of this.#workloads) await load.waitForProgress(1, PROGRESS_MS);
    await eventually(() => {
      const waiting = this.#cycles.filter(({ done }, n) => done <= (before[n] ?? 0));
      if (waiting.length > 0) {
        throw new Error(waiting.map((load) => `${load.constructor.name}: ${load.last}`).join('; '));
      }
      return this.#reads.every(({ done }, n) => done > (reads[n] ?? 0));
    }, PROGRESS_MS);
  }

  async #addTenant(n: number): Promise<void> {
    const cluster = this.#cluster;
    const owner = await newOwner(
      cluster.deployment,
      (token) => withRepeatedReads(cluster.clientOf(token)),
      `owner-${n}`,
    );
    const nodes: NodeClients = () => cluster.places.map((place) => cluster.nodeClient(place, owner.token));
    const load = new Workload(owner);
    const [counter] = [await load.addDevice(), await load.addDevice({ critical: true })];
    this.#workloads.push(load);
    this.#reads.push(new ReadLoad(nodes, counter));
    // Until the database answers: what is committed before is not compared.
    const recordAnswer = (deviceId: string) =>
      eventually(() => recordAnsweredRevocation(cluster.databaseUrl, deviceId).then(() => true), PROGRESS_MS);
    this.#plans.push(await PlanLoad.start(owner, nodes));
    this.#revocations.push(await RevocationLoad.start(owner, nodes, recordAnswer));
    this.log.push(`tenant ${n} in shard ${shardOf(owner.tenantId)}`);
  }
}

/** A client that reads again if the connection breaks or the service is unavailable for a moment. */
const withRepeatedReads = (api: ApiClient): ApiClient => ({
  ...api,
  get: (...request) =>
    eventually(async () => {
      const answer = await api.get(...request);
      return answer.status === 503 ? null : answer;
    }),
});

import { publicRandom } from '../../src/domain/public-random.ts';
import { collectionsOfModules, type Made, rememberProcesses } from './collections/registry.ts';
import { calmDown, causeFaults } from './faults.ts';
import { CommitInvariants } from './invariants/commits.ts';
import { checkEnding, lateWords, unfinished } from './invariants/final-state.ts';
import { grown, measure, modulesGrown } from './invariants/memory.ts';
import { checkWrites } from './invariants/writes.ts';
import { comparesMemory, type RunOptions } from './options.ts';
import { isOfRefusedData, isRefusedRow } from './refused-data.ts';
import { Cluster, type ClusterOptions } from './service/cluster.ts';
import type { Keys } from './service/fixtures.ts';
import { parts } from './workload/parts.ts';
import { SimulatedTenant } from './workload/simulated-tenant.ts';
import { activate, deactivate } from './world/globals.ts';
import type { Random } from './world/random.ts';
import { World } from './world/world.ts';

export interface RunResult {
  seed: number;
  violations: { invariant: string; detail: string }[];
  steps: number;
  virtualMs: number;
  realMs: number;
  /** SHA-256 of the trace. */
  hash: string;
  counts: Record<string, number>;
  /** The last lines of the trace, if an invariant was violated. */
  tail: readonly string[];
}

const MOST_STEPS = 3_000_000;
const MOVE_IN_MS = 60_000;
/** Longer than all deadlines of the workload in sequence. */
const CALM_MS = 15 * 60_000;
/** Until all idle actors have been passivated. */
const IDLE_MS = 240_000;
/** For a run that does not compare memory: enough for all pending work. */
const QUIET_MS = 20_000;
/** By then a new process is active and has fired due timers. */
const RECOVERED_MS = 90_000;
const LOOK_MS = 5_000;
/** Longer than tokens of CONNECT packets are remembered. */
const TOKENS_MS = 130_000;
const ABSENCE_MS = 49 * 3_600_000;
const NIGHT_MS = 25 * 3_600_000;
const MORNING_MS = 5 * 60_000;
const POOL_DRAW_BYTES = 64;

/** One run: registration, fault phase, recovery, idle night, and final checks. The same options give the same run. */
export async function run(options: RunOptions, keys: Keys, print: ((line: string) => void) | null): Promise<RunResult> {
  const began = process.hrtime.bigint();
  const world = new World(options.seed, print);
  currentWorld = world;
  rememberProcesses(comparesMemory(options.seed));
  const ofModules = collectionsOfModules();
  activate({ scheduler: world.scheduler, random: world.random.fork('programs') });
  try {
    refillPool();
    await runScenario(world, keys, options);
    const more = world.failed ? [] : modulesGrown(ofModules);
    if (more.length > 0) world.fail('memory-returns-to-baseline', more.join('; '));
  } catch (error) {
    world.fail('the-run-completes', (error as Error).stack ?? String(error));
  } finally {
    deactivate();
    currentWorld = null;
  }
  return {
    seed: options.seed,
    violations: world.violations.map(({ invariant, message }) => ({ invariant, detail: message })),
    steps: world.scheduler.steps,
    virtualMs: Math.round(world.scheduler.elapsed),
    realMs: Number(process.hrtime.bigint() - began) / 1e6,
    hash: world.trace.digest(),
    counts: Object.fromEntries([...world.counts].sort()),
    tail: world.failed ? [...world.trace.last()] : [],
  };
}

let currentWorld: World | null = null;
process.on('unhandledRejection', (reason) => {
  const detail = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
  if (currentWorld === null) throw reason;
  currentWorld.fail('no-unhandled-rejections', detail);
});

/** Discards random bytes buffered before the run, so that all randomness of the run depends on its seed. */
function refillPool(): void {
  // The first bytes of the pool are returned when it has just been filled.
  while (publicRandom(POOL_DRAW_BYTES).byteOffset !== 0);
}

async function runScenario(world: World, keys: Keys, options: RunOptions): Promise<void> {
  const cluster = new Cluster(world, keys, swarm(world.random.fork('swarm'), options.hosts));
  const service = new SimulatedTenant(world, cluster, world.random.pick(['requester', 'another_principal']));
  const commits = new CommitInvariants(world, cluster.database, service.ledger);
  cluster.wrote = (clockErrorMs) => commits.check(clockErrorMs);
  cluster.released = (ref, version, event) => commits.released(ref, version, event);
  cluster.sending = (packet, clockErrorMs) => checkWrites(service, packet, clockErrorMs);
  cluster.database.refuses = isRefusedRow;
  cluster.expects = isOfRefusedData;
  cluster.start();
  watchDeadlines(service, commits);

  const until = (ms: number, done: () => boolean) =>
    world.scheduler.run(world.scheduler.now + ms, () => world.failed || done(), MOST_STEPS);
  let moved = false;
  void service.moveIn().then(() => {
    moved = true;
  });
  await until(MOVE_IN_MS, () => moved && service.devices.every(({ online }) => online));
  if (!moved) {
    world.fail('all-work-finishes', 'the registration did not finish');
    return;
  }

  await absence(service, until);
  world.note('run', 'storm');
  const working = Promise.all(options.parts.map((name) => parts[name](service)));
  void causeFaults(service, options.faults, options.mostFaults);
  await until(options.stormMs, () => false);
  service.storm = false;
  calmDown(service);
  service.calmSince = world.scheduler.now;
  world.note('run', 'calm');
  let idle = false;
  void working.then(() => {
    idle = true;
  });
  await until(CALM_MS, () => idle);
  for (const device of service.devices) device.count();
  await until(CALM_MS, () => unfinished(service).length === 0);
  if (world.failed) return;
  const left = [...(idle ? [] : ['the workload has not come to its end']), ...unfinished(service)];
  if (left.length > 0) {
    world.fail('all-work-finishes', left.join('; '));
    return;
  }
  const { seed } = options;
  if (comparesMemory(seed)) {
    await until(TOKENS_MS, () => false);
    // A sign-in removes expired tokens.
    for (const device of service.devices) device.leave();
    await until(MORNING_MS, () => service.devices.every(({ online }) => online));
  }
  const quiet = () => until(comparesMemory(seed) ? IDLE_MS : QUIET_MS, () => false);
  await quiet();
  const check = () => {
    checkEnding(service);
    commits.checkEnding();
  };
  if (!world.failed) check();
  if (!world.failed) await night(service, { until, quiet, check });
}

/**
 * The registration is two days before the fault phase, so that a day between them has ended: reports imported from before the
 * registration are the values before its ranges.
 */
async function absence({ world, cluster, devices }: SimulatedTenant, until: Passing['until']): Promise<void> {
  for (const host of cluster.hosts) host.kill('kill');
  world.scheduler.skip(ABSENCE_MS);
  const isBack = () => devices.every(({ online }) => online);
  await until(MORNING_MS, isBack);
  if (!isBack()) world.fail('all-work-finishes', 'the devices are not connected before the fault phase');
}

/** Checks for late deadlines once the active process has had time to recover. */
function watchDeadlines(service: SimulatedTenant, commits: CommitInvariants): void {
  const { scheduler } = service.world;
  const check = () => {
    if (scheduler.now - service.calmSince > RECOVERED_MS) commits.checkLateness();
    scheduler.at(LOOK_MS, check, null);
  };
  scheduler.at(LOOK_MS, check, null);
}

/** How the night and its memory checks let time pass. */
interface Passing {
  until(ms: number, done: () => boolean): Promise<void>;
  /** Until idle actors are passivated, if memory is compared. */
  quiet(): Promise<void>;
  /** Compares the stored data with the responses that clients received. */
  check(): void;
}

/** All processes are stopped for longer than any grace period of a key, then start with empty memory. */
async function night(service: SimulatedTenant, { until, quiet, check }: Passing): Promise<void> {
  const { world, cluster } = service;
  const before = await measured(service, { watches: lateWords(service) === 0 });
  world.note('run', 'night');
  for (const host of cluster.hosts) host.kill('kill');
  for (const device of service.devices) service.ledger.endKeysBelow(device.id, currentKey(service, device.id));
  world.scheduler.skip(NIGHT_MS);
  service.calmSince = world.scheduler.now;
  world.note('run', 'morning');
  const awake = () => service.devices.every(({ online }) => online) && unfinished(service).length === 0;
  await until(MORNING_MS, awake);
  const left = unfinished(service);
  if (left.length > 0) world.fail('all-work-finishes', `in the morning: ${left.join('; ')}`);
  await quiet();
  if (world.failed) return;
  check();
  const base = await measured(service, { watches: true });
  const more = grown(before, base);
  if (more.length > 0) world.fail('memory-returns-to-baseline', more.join('; '));
}

/** The collections of the active process; empty in a run that does not compare memory. */
async function measured({ world, cluster }: SimulatedTenant, also: { watches: boolean }): Promise<Map<string, Made>> {
  const active = cluster.active();
  if (active === null) world.fail('all-work-finishes', 'no process is active');
  return active === null || !comparesMemory(world.seed) ? new Map() : measure(active.owner, also);
}

function currentKey({ cluster }: SimulatedTenant, deviceId: string): number {
  const row = cluster.database.tables.actors.get(`device:${deviceId}`);
  return row === undefined ? 1 : Number(row.context.keyVersion);
}

/** Each run has different limits: most defects show when a small limit is reached. */
function swarm(random: Random, hosts: 1 | 2 | null): ClusterOptions {
  return {
    hosts: hosts ?? random.pick([1, 2]),
    limits: {
      batchEvents: random.pick([1, 2, 5, 4_000]),
      batchActors: random.pick([1, 2, 5, 64]),
      enlistedActors: random.pick([0, 1, 1_000]),
      idleMs: random.pick([1, 100, 60_000]),
      mailboxEvents: random.pick([5, 20, 1_000]),
    },
    requestsPerMinute: random.pick([0, 0, 40]),
    deviceRate: random.pick([
      { perSecond: 20, burst: 40 },
      { perSecond: 1_000, burst: 1_000 },
    ]),
    batchesInFlight: random.pick([1, 2]),
  };
}

import { violationNames } from './network/packets.ts';
import type { SimulatedTenant } from './workload/simulated-tenant.ts';

/** A kind of fault; injected repeatedly, at random times, during the fault phase. */
type Fault = (service: SimulatedTenant) => void;

const DAY_MS = 86_400_000;
const clockOffsetsMs = [-400 * DAY_MS, -3_600_000, -90_000, -20_000, 0, 20_000, 90_000, 3_600_000, 400 * DAY_MS];

const WRONG_FOR_GOOD_MS = -7_200_000;

/** Each kind can be disabled, with which the shrinker reduces a failing run. */
export const faults = {
  kill: ({ cluster, random }) => random.pick(cluster.hosts).kill('kill'),
  stop: ({ cluster, random }) => random.pick(cluster.hosts).stop(),
  pause: ({ cluster, random }) => random.pick(cluster.hosts).pause(random.float(random.pick([500, 4_000, 20_000]))),
  /** A pause in which the process loses the lock without noticing, and another process gets it. */
  pauseWithoutLock: ({ cluster, random }) => {
    const host = random.pick(cluster.hosts);
    host.running?.lock.cut('silent');
    host.pause(random.between(10_000, 25_000));
  },
  lockCut: ({ cluster, random }) => random.pick(cluster.hosts).running?.lock.cut(random.pick(['seen', 'silent'])),
  blackout: ({ cluster, random, world }) => {
    world.count('blackouts');
    cluster.weather.blackoutUntil = world.scheduler.now + random.float(random.pick([500, 3_000, 15_000]));
  },
  writesStall: ({ cluster, random, world }) => {
    world.count('write stalls');
    const until = world.scheduler.now + random.pick([500, 4_000, 9_000]);
    cluster.weather.writesStallUntil = Math.max(cluster.weather.writesStallUntil, until);
  },
  unreliableStore: ({ cluster, random }) => {
    Object.assign(cluster.weather, { away: random.float(0.3), broken: random.float(0.3) });
  },
  slowStore: ({ cluster, random }) => {
    const latency = random.pick([0.5, 3, 30, 200]);
    Object.assign(cluster.weather, { away: 0, broken: 0, latency, stall: random.pick([0, 0.05, 0.2]), stallMs: 6_000 });
  },
  databaseCrash: ({ cluster, random, world }) => {
    world.count('database crashes');
    cluster.crashDatabase(random.float(random.pick([500, 5_000])));
  },
  /** Sets the clock of a host wrong, and often right again. */
  clockStep: ({ cluster, random, world }) => {
    const host = random.pick(cluster.hosts);
    host.setClock(random.pick(clockOffsetsMs));
    if (random.chance(0.7)) world.scheduler.at(random.float(20_000), () => host.setClock(0), null);
  },
  connectionsBreak: ({ devices, random }) => {
    for (const device of devices) if (random.chance(0.5)) device.breaks(random.pick(['reset', 'silent']));
  },
  messagesComeLate: ({ devices, random }) => {
    for (const device of devices) {
      if (random.chance(0.5)) continue;
      for (let n = random.int(4); n > 0; n--) device.count();
      device.breaks('late');
    }
  },
  connectReplayed: ({ devices, random }) => random.pick(devices).replayConnect(),
  /** Each way once, since some devices may be disconnected at that time. */
  protocolBroken: ({ devices, random }) => {
    for (const how of violationNames) random.pick(devices).violates(how);
  },
  connectNeverComes: ({ devices, random }) => random.pick(devices).sendsNoConnect(),
  devicesLeave: ({ devices, random }) => random.pick(devices).leave(),
  badNetwork: ({ cluster, random }) => {
    cluster.loss = random.pick([0, 0.05, 0.3]);
    cluster.network.latency = random.pick([1, 20, 300]);
  },
  passivation: ({ cluster }) => {
    cluster.serving()?.service?.runtime.actors.passivate();
  },
} satisfies Record<string, Fault>;

export type FaultName = keyof typeof faults;
export const faultNames = Object.keys(faults) as FaultName[];

/** Injects faults until the fault phase ends, at most `most`. */
export async function causeFaults(service: SimulatedTenant, names: readonly FaultName[], most: number): Promise<void> {
  const { world } = service;
  const random = world.random.fork('faults');
  for (let left = most; left > 0 && names.length > 0; left--) {
    await world.scheduler.sleep(random.float(2_500));
    if (!service.storm) return;
    const name = random.pick(names);
    world.note('fault', name);
    world.count(`fault: ${name}`);
    faults[name](service);
  }
}

/** Repairs everything, except that one of two hosts may keep a clock two hours slow: then the other host must serve. */
export function calmDown({ cluster, world }: SimulatedTenant): void {
  Object.assign(cluster.weather, { away: 0, broken: 0, stall: 0, latency: 2, blackoutUntil: 0, writesStallUntil: 0 });
  Object.assign(cluster.network, { latency: 20 });
  cluster.loss = 0;
  const wrong = cluster.hosts.length > 1 && world.random.chance(0.3) ? world.random.pick(cluster.hosts) : null;
  for (const host of cluster.hosts) host.setClock(host === wrong ? WRONG_FOR_GOOD_MS : 0);
  for (const { running } of cluster.hosts) {
    if (running?.owner.state === 'paused') world.scheduler.resume(running.owner);
  }
}

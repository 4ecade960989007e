import type { Packet } from 'mqtt-packet';
import type { RuntimeLimits } from '../../../src/actors/runtime-limits.ts';
import { LEASE_MS } from '../../../src/domain/lease.ts';
import { MAX_CLOCK_OFFSET_MS } from '../../../src/domain/service-clock.ts';
import type { ActorRef } from '../../../src/machines/outputs.ts';
import { MemoryDatabase } from '../../support/memory-store/database.ts';
import type { Network } from '../network/link.ts';
import { LockServer } from '../store/lock-server.ts';
import type { Statements } from '../store/statements.ts';
import { normalConditions, type StoreConditions } from '../store/store-conditions.ts';
import { runAs } from '../world/scheduler.ts';
import type { World } from '../world/world.ts';
import type { Keys } from './fixtures.ts';
import { Host, type Running } from './host.ts';
import type { Service } from './process.ts';

/** How long a client waits for a response before it treats the connection as lost. */
const CLIENT_TIMEOUT_MS = 12_000;
/** A clock reading takes less than the lease duration, and its error is at most half of that. */
const MOST_CLOCK_ERROR_MS = LEASE_MS / 2;

export interface ClusterOptions {
  hosts: number;
  limits: Partial<RuntimeLimits>;
  requestsPerMinute: number;
  deviceRate: { perSecond: number; burst: number };
  batchesInFlight: number;
}

/** Everything except clients: the database, the lock, the hosts and the networks between them. */
export class Cluster {
  readonly database = new MemoryDatabase();
  readonly weather: StoreConditions = normalConditions();
  readonly network: Network = { latency: 20 };
  readonly hosts: Host[];
  /** Database connections of all processes, including ended ones, whose statements can still be in transit. */
  readonly #statements: Statements[] = [];
  readonly #lockServer: LockServer;
  /** Probability that a request or its response is lost. */
  loss = 0;
  /** Called after each writing statement. */
  wrote: (clockErrorMs: number) => void = () => {};
  /** Called with each transition of an actor that a process releases. */
  released: (ref: ActorRef, version: number, event: string) => void = () => {};
  /** Whether a logged error is expected from the injected faults. */
  expects: (fields: object, message: string) => boolean = () => false;
  /** Called with each MQTT packet that is sent to a device. */
  sending: (packet: Packet, clockErrorMs: number) => void = () => {};
  readonly #world: World;
  #ids = 0;

  constructor(world: World, keys: Keys, options: ClusterOptions) {
    this.#world = world;
    const lockServer = new LockServer(world, this.database);
    this.#lockServer = lockServer;
    const parts = {
      ...{ world, keys, lockServer, database: this.database, weather: this.weather, network: this.network },
      ...options,
      newId: () => this.newId(),
      takeover: (by: Running) => this.#endOthers(by),
      wrote: (running: Running) => this.wrote(this.#clockError(running)),
      released: (ref: ActorRef, version: number, event: string) => this.released(ref, version, event),
      opened: (statements: Statements) => void this.#statements.push(statements),
      activated: (host: Host, running: Running) => this.#activated(host, running),
      expects: (fields: object, message: string) => this.expects(fields, message),
      sending: (running: Running, packet: Packet) => {
        this.acts(running, 'wrote to a device');
        this.sending(packet, this.#clockError(running));
      },
    };
    this.hosts = Array.from({ length: options.hosts }, (_, n) => new Host('AB'[n] as string, parts));
  }

  start(): void {
    for (const host of this.hosts) host.start();
  }

  /** UUID version 7, in the order of the calls. */
  newId(): string {
    const time = this.#world.now().toString(16).padStart(12, '0');
    const count = (this.#ids++).toString(16).padStart(12, '0');
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${count}`;
  }

  /** A process that accepts connections; chosen at random if several believe that they are active. */
  serving(): Running | null {
    const all = this.hosts.flatMap(({ running }) => (running?.service ? [running] : []));
    return all.length === 0 ? null : this.#world.random.pick(all);
  }

  /** The process that holds the newest epoch and serves, or null. */
  active(): Running | null {
    const all = this.hosts.flatMap(({ running }) => (running?.service ? [running] : []));
    return all.find(({ epoch }) => epoch === this.database.epoch) ?? null;
  }

  /** Called for each external effect of a process: only the process with the newest epoch may have one. */
  acts(running: Running, what: string): void {
    const { owner, epoch } = running;
    const offMs = this.#clockError(running);
    if (Math.abs(offMs) > MOST_CLOCK_ERROR_MS) {
      this.#world.fail('time-follows-the-database', `${owner.name} ${what} with a clock that is ${offMs} ms off`);
    }
    if (epoch === this.database.epoch) return;
    this.#world.fail(
      'only-the-active-process-acts',
      `${owner.name} of epoch ${epoch} ${what}, and ${this.database.epoch} has begun`,
    );
  }

  /** One HTTP exchange; null without a response: the connection was refused, lost or timed out. */
  exchange<T>(about: string, request: (service: Service) => Promise<T>): Promise<T | null> {
    const { scheduler, random } = this.#world;
    const running = this.serving();
    return new Promise((resolve) => {
      let over = false;
      const settle = (answer: T | null) => {
        if (over) return;
        over = true;
        running?.onDeath.delete(broken);
        scheduler.at(0, () => resolve(answer), null);
      };
      const broken = () => settle(null);
      const transit = () => random.between(0.1, 0.1 + this.network.latency);
      scheduler.at(running === null ? transit() : CLIENT_TIMEOUT_MS, broken, null);
      if (running === null || random.chance(this.loss)) return;
      running.onDeath.add(broken);
      const answered = (answer: T) => {
        // A socket passes nothing to the operating system after the lease has expired.
        if (!running.lock.lease.valid()) {
          broken();
          return;
        }
        this.acts(running, `answered ${about}`);
        if (!random.chance(this.loss)) scheduler.at(transit(), () => settle(answer), null);
      };
      scheduler.at(
        transit(),
        () => {
          const { service } = running;
          if (service === null) broken();
          else void runAs(running.owner, () => request(service).then(answered));
        },
        running.owner,
      );
    });
  }

  /** Crashes the database server with all transactions in progress; it is back after `recoveryMs`. */
  crashDatabase(recoveryMs: number): void {
    const until = this.#world.scheduler.now + recoveryMs;
    this.weather.blackoutUntil = Math.max(this.weather.blackoutUntil, until);
    this.#lockServer.down(until);
    const open = this.#statements.flatMap((statements) => statements.crash());
    this.database.crash(open);
    this.#world.note('database', `crash; ${open.length} transactions are rolled back`);
    for (const { running } of this.hosts) running?.lock.cut('seen');
  }

  /** A process whose host clock is off by more than a minute when it gets the lock does not become active. */
  #activated({ name, machine, clockSetAt }: Host, { lock }: Running): void {
    if (Math.abs(machine.clockOffsetMs) <= MAX_CLOCK_OFFSET_MS || clockSetAt > lock.judgedAt) return;
    this.#world.fail(
      'no-activation-with-a-wrong-clock',
      `${name} became active with a clock that is ${machine.clockOffsetMs / 1_000} s off`,
    );
  }

  /** The clock of a process minus the true time, in milliseconds. */
  #clockError({ time }: Running): number {
    return time === null ? 0 : time.clock.now() - this.#world.now();
  }

  #endOthers(by: Running): void {
    for (const { running } of this.hosts) if (running !== null && running !== by) running.statements.end();
  }
}

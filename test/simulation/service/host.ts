import type { Packet } from 'mqtt-packet';
import type { Log } from '../../../src/domain/log.ts';
import { Activation } from '../../../src/main/activation.ts';
import { type ClockMonitor, hostTime, startClockMonitor } from '../../../src/main/clock-monitor.ts';
import type { MemoryDatabase } from '../../support/memory-store/database.ts';
import { openMemoryStore } from '../../support/memory-store/store.ts';
import { type LockServer, SimulatedLock } from '../store/lock-server.ts';
import { Statements } from '../store/statements.ts';
import type { StoreConditions } from '../store/store-conditions.ts';
import { type Machine, type Owner, runAs } from '../world/scheduler.ts';
import { type ProcessParts, type Service, startService } from './process.ts';

/** How long a process continues after it lost its lease: until `process.exit` takes effect. */
const LAST_MOMENTS_MS = 20;

/** Maximum duration of a drain, as in `twinkeep serve`. */
const DRAIN_MS = 9_500;

/** Errors logged for the operator whose only cause is the store. */
const expectedErrors: ReadonlySet<string> = new Set(['audit rows lost on close: store unavailable']);

/** A process from start to end; it serves while it has `service`. */
export interface Running {
  owner: Owner;
  lock: SimulatedLock;
  statements: Statements;
  service: Service | null;
  /** Set once it has the lock. */
  time: ClockMonitor | null;
  epoch: number;
  /** Called when the process ends: its connections close. */
  onDeath: Set<() => void>;
}

export interface HostParts extends Omit<ProcessParts, 'owner' | 'store' | 'log' | 'sending' | 'lease' | 'time'> {
  database: MemoryDatabase;
  lockServer: LockServer;
  weather: StoreConditions;
  batchesInFlight: number;
  /** Terminates the database sessions of all other processes. */
  takeover(by: Running): void;
  /** A writing statement took effect. */
  wrote(by: Running): void;
  /** A process sends an MQTT packet to a client. */
  sending(running: Running, packet: Packet): void;
  /** A process has connected to the database. */
  opened(statements: Statements): void;
  /** A process became active. */
  activated(host: Host, running: Running): void;
  /** Whether a logged error is expected from the injected faults. */
  expects(fields: object, message: string): boolean;
}

/** A host that runs one process at a time and starts the next one when it has ended. */
export class Host {
  readonly name: string;
  running: Running | null = null;
  readonly machine: Machine = { clockOffsetMs: 0 };
  /** Virtual time at which the wall clock was last set. */
  clockSetAt = 0;
  readonly #parts: HostParts;
  #serial = 0;
  #retired = false;

  constructor(name: string, parts: HostParts) {
    this.name = name;
    this.#parts = parts;
  }

  start(): void {
    if (this.#retired || this.running !== null) return;
    const { world } = this.#parts;
    this.#serial += 1;
    const owner: Owner = { name: `${this.name}${this.#serial}`, state: 'running', machine: this.machine };
    const random = world.random.fork(owner.name);
    const { lockServer: server, weather } = this.#parts;
    const takeover = () => this.#parts.takeover(running);
    const lock = new SimulatedLock({ world, random: random.fork('lock'), server, owner, takeover });
    const wrote = () => this.#parts.wrote(running);
    const statements = new Statements({ world, random: random.fork('statements'), weather, owner, wrote });
    this.#parts.opened(statements);
    const running: Running = { owner, lock, statements, service: null, time: null, epoch: 0, onDeath: new Set() };
    this.running = running;
    lock.onLost(() => {
      world.note(owner.name, 'lost the lock');
      running.service?.abort();
      world.scheduler.at(random.float(LAST_MOMENTS_MS), () => this.kill('exit'), null);
    });
    runAs(owner, () => void this.#serve(running));
  }

  /** Kills the process: none of its code runs again, and its connections close. */
  kill(how: 'kill' | 'exit'): void {
    const { running } = this;
    if (running === null) return;
    const { world } = this.#parts;
    this.running = null;
    running.owner.state = 'dead';
    world.count(how === 'kill' ? 'kills' : 'exits');
    world.note(running.owner.name, how);
    running.lock.end();
    for (const broke of running.onDeath) broke();
    running.onDeath.clear();
    const wait = world.random.between(50, 2_000);
    world.scheduler.at(wait, () => this.start(), null);
  }

  /** Pauses the whole process, like SIGSTOP. */
  pause(ms: number): void {
    const { running } = this;
    if (running === null || running.owner.state !== 'running') return;
    const { world } = this.#parts;
    running.owner.state = 'paused';
    world.count('pauses');
    world.note(running.owner.name, `paused for ${Math.round(ms)} ms`);
    world.scheduler.at(ms, () => world.scheduler.resume(running.owner), null);
  }

  /** Sets the wall clock of the host. */
  setClock(offsetMs: number): void {
    if (offsetMs === this.machine.clockOffsetMs) return;
    this.machine.clockOffsetMs = offsetMs;
    this.clockSetAt = this.#parts.world.scheduler.now;
    this.#parts.world.note(this.name, `clock ${offsetMs / 1_000} s off`);
  }

  /** Like SIGTERM: finishes requests in progress, releases the lock and ends. */
  stop(): void {
    const { running } = this;
    const service = running?.service;
    if (!running || !service || running.owner.state !== 'running') return;
    running.service = null;
    const { world } = this.#parts;
    world.count('stops');
    const exit = (ms: number) => world.scheduler.at(ms, () => this.running === running && this.kill('exit'), null);
    exit(DRAIN_MS);
    runAs(running.owner, () => {
      const ended = service.stop().then(() => running.lock.release());
      const exitNow = () => exit(0);
      ended.then(exitNow, exitNow);
    });
  }

  retire(): void {
    this.#retired = true;
  }

  async #serve(running: Running): Promise<void> {
    const { world, database, batchesInFlight, sending, activated, ...parts } = this.#parts;
    const { owner, lock, statements } = running;
    const log = this.#log(owner);
    const activation = new Activation({ lock, host: hostTime(), readClock: () => lock.readClock(), log });
    const sample = await activation.acquire(new AbortController().signal);
    const time = startClockMonitor(hostTime(), sample, log);
    lock.onRenewed(time.observe);
    Object.assign(running, { time, epoch: lock.lease.epoch });
    activated(this, running);
    const store = openMemoryStore(database, {
      transport: statements.wire,
      epoch: running.epoch,
      batchesInFlight: batchesInFlight,
    });
    try {
      const service = await startService({
        ...{ ...parts, world, owner, store, time, log },
        lease: lock.lease,
        sending: (packet) => sending(running, packet),
      });
      running.service = service;
      running.onDeath.add(() => service.mqtt.died());
      world.note(owner.name, 'serves');
    } catch (error) {
      world.note(owner.name, `did not start: ${(error as Error).message}`);
      world.count('failed starts');
      world.scheduler.at(0, () => this.running === running && this.kill('exit'), null);
    }
  }

  /** Warnings are expected in a run; an error of the service is a finding. */
  #log({ name }: Owner): Log {
    const { world, expects } = this.#parts;
    const reason = (fields: object) => ('err' in fields && fields.err instanceof Error ? fields.err.message : '');
    return {
      debug() {},
      info() {},
      warn(fields, message) {
        world.note(name, `warn: ${message} ${reason(fields)}`);
      },
      error(fields, message) {
        if (expectedErrors.has(message ?? '') || expects(fields, message ?? '')) {
          world.count(`error: ${message}`);
          return;
        }
        const stack = 'err' in fields && fields.err instanceof Error ? fields.err.stack : JSON.stringify(fields);
        world.fail('no-error-is-logged', `${name} logged "${message}": ${stack}`);
      },
    };
  }
}

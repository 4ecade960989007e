import type { RequestListener, Server } from 'node:http';
import type { Socket } from 'node:net';
import { hostname } from 'node:os';
import { setTimeout as after } from 'node:timers/promises';
import { type Config, listenFault } from '../config.ts';
import type { Lease } from '../domain/lease.ts';
import type { HostTime } from '../domain/service-clock.ts';
import { guardWrites } from '../domain/write-guard.ts';
import { makeStandbyListener, makeStandbyUpgrade } from '../edges/rest/standby.ts';
import { SERVICE_VERSION } from '../operations/platform/system.ts';
import type { ActiveLock } from '../store/contract.ts';
import type { AdvisoryLockParts } from '../store/lock/advisory-lock.ts';
import type { NodeInfo } from '../store/lock/node-registration.ts';
import { openLock, openSharedLock, readDatabaseClock, readValuesWithOtherKeys } from '../store/open.ts';
import { Activation } from './activation.ts';
import { type ActiveService, composeService, type UpgradeHandler } from './active-service.ts';
import { type ClockMonitor, fixedClockMonitor, hostTime, startClockMonitor } from './clock-monitor.ts';
import type { EmbeddedDatabase } from './embedded-database.ts';
import { createHttpServer, urlOf } from './http-server.ts';
import { newId } from './ids.ts';
import { masterKeyProblem } from './master-keys.ts';
import { listen } from './ports.ts';
import type { StartOptions } from './start-options.ts';

const CLOSE_IDLE_MS = 100;
/** Maximum time for requests in flight during shutdown. */
const DRAIN_REQUESTS_MS = 4_000;

/** Maximum time for which requests wait until a node is active. */
const ACTIVE_SOON_MS = 5_000;

/** The HTTP server, the active lock and the active service of one process, from the start to the stop. */
export class ServiceProcess {
  readonly #config: Config;
  readonly #options: StartOptions;
  readonly #host: HostTime;
  /** Null with PostgreSQL. */
  readonly #embedded: EmbeddedDatabase | null;
  readonly #lock: ActiveLock;
  /** Null if the clock of the database is not checked before the lock is acquired. */
  readonly #activation: Activation | null;
  readonly #server: Server;
  /** Ends the wait for the active lock. */
  readonly #waiting = new AbortController();
  readonly #active = Promise.withResolvers<void>();
  #url = '';
  #listener: RequestListener;
  #upgrade: UpgradeHandler;
  #lease: Lease | null = null;
  #lockLost = false;
  readonly #node: NodeInfo;
  /** The wait of requests until this node is active. */
  #soon: Promise<boolean> | null = null;
  /** When the last confirmed renewal was sent, in milliseconds of `performance.now()`. */
  #renewedAt: number | null = null;
  #clockMonitor: ClockMonitor | null = null;
  #service: ActiveService | null = null;
  /** Ends the delay between the request to stop and the refusal of requests. */
  readonly #stopDelay = new AbortController();
  /** Set by `stop`. */
  #draining: Promise<void> | null = null;
  /** Set when new requests are refused. */
  #stopping: Promise<void> | null = null;

  /** `embedded` is the database of a configuration without `databaseUrl`, else null. */
  constructor(config: Config, options: StartOptions, embedded: EmbeddedDatabase | null) {
    const { log, limits } = options;
    const startedAt = performance.now();
    const node = { address: `${hostname()}:${config.port}`, build: SERVICE_VERSION };
    this.#node = node;
    this.#config = config;
    this.#options = options;
    this.#embedded = embedded;
    this.#host = hostTime(options.wallClock);
    const lockParts = { log, node, refusal: this.#keyCheck(), ...(limits?.lock && { timing: limits.lock }) };
    this.#lock = embedded?.lock ?? makeServerLock(config, lockParts);
    this.#lock.onRenewed(({ sentAt }) => {
      this.#renewedAt = sentAt;
    });
    this.#activation = this.#makeActivation();
    this.#listener = makeStandbyListener({
      newId,
      uptimeS: () => (performance.now() - startedAt) / 1000,
      clockOffsetMs: () => this.#activation?.untrustedOffsetMs() ?? null,
      whenActive: async () => ((await this.#isActiveSoon()) ? this.#listener : null),
    });
    this.#upgrade = makeStandbyUpgrade({
      newId,
      whenActive: async () => ((await this.#isActiveSoon()) ? this.#upgrade : null),
    });
    this.#server = this.#makeServer();
  }

  /** Base URL of HTTP, without a trailing slash. */
  get url(): string {
    return this.#url;
  }

  /** Null while the process is a standby. */
  mqttUrl(): string | null {
    return this.#service?.settings.mqttUrl ?? null;
  }

  /** Resolves when this process is the active one and serves requests. */
  get active(): Promise<void> {
    return this.#active.promise;
  }

  /** Resolves when HTTP listens; on the embedded store, when the process is active. */
  async start(): Promise<void> {
    if (this.#canStandBy) await this.#listenAsStandby();
    this.#serve().then(this.#active.resolve, this.#active.reject);
    if (this.#canStandBy) this.active.catch((error: Error) => this.#reportFailedStart(error));
    else await this.active.catch((error) => this.#abandonStart(error));
    this.#url = urlOf(this.#config, this.#server);
  }

  /** Rejects new requests, finishes those in flight, commits, closes. */
  stop(): Promise<void> {
    this.#draining ??= this.#handOverAndClose();
    return this.#draining;
  }

  /** Only a process on PostgreSQL can wait for the lock of another process. */
  get #canStandBy(): boolean {
    return this.#embedded === null;
  }

  /**
   * Waits a while for a node to become active, as balancers without health checks send it requests before: true when it
   * is. False at once for a process that waits for another one to end.
   */
  async #isActiveSoon(): Promise<boolean> {
    if (this.#config.node === null) return false;
    // One for all requests: a node may wait long for a process that has the database to itself.
    this.#soon ??= Promise.race([this.active.then(() => true), after(ACTIVE_SOON_MS, false, { ref: false })])
      .catch(() => false)
      .finally(() => {
        this.#soon = null;
      });
    return this.#soon;
  }

  /**
   * A process whose keys do not fit the database must not take over from one whose keys do, so its keys are checked before
   * it takes the lock, and again before it migrates.
   */
  #keyCheck(): AdvisoryLockParts['refusal'] {
    const { databaseUrl, keys } = this.#config;
    if (databaseUrl === null) return undefined;
    const now = () => this.#options.clock?.now() ?? null;
    return (signal) =>
      masterKeyProblem((known) => readValuesWithOtherKeys(databaseUrl, known, { now: now(), signal }), keys);
  }

  #makeActivation(): Activation | null {
    const { databaseUrl } = this.#config;
    const { log, clock, limits } = this.#options;
    if (databaseUrl === null || clock) return null;
    return new Activation({
      ...{ lock: this.#lock, host: this.#host, log, readClock: () => readDatabaseClock(databaseUrl) },
      checkMs: limits?.clockCheckMs,
    });
  }

  #makeServer(): Server {
    const server = createHttpServer(this.#config, (request, response) => this.#listener(request, response));
    // A standby answers without a lease.
    server.on(this.#config.tls === null ? 'connection' : 'secureConnection', (socket: Socket) =>
      guardWrites(socket, () => this.#lease === null || this.#lease.valid()),
    );
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket as never, head));
    return server;
  }

  async #listenAsStandby(): Promise<void> {
    try {
      await listen(this.#server, this.#config);
    } catch (error) {
      throw listenFault(this.#config, error);
    }
  }

  /** Becomes the active process and opens the active service. */
  async #serve(): Promise<void> {
    const clockMonitor = await this.#activate();
    const service = await composeService(this.#config, {
      ...this.#options,
      ...{
        clockMonitor,
        lock: this.#lock,
        thread: this.#embedded?.thread,
        node: this.#node,
        signal: this.#waiting.signal,
      },
      leaseAgeMs: () => (this.#renewedAt === null ? null : performance.now() - this.#renewedAt),
      stopping: () => this.#draining !== null,
      draining: () => this.#stopping !== null,
    });
    this.#service = service;
    if (this.#lockLost) service.abort();
    if (!this.#canStandBy) await listen(this.#server, this.#config);
    const url = urlOf(this.#config, this.#server);
    await service.open(url);
    this.#listener = service.listener;
    this.#upgrade = service.upgrade;
    this.#options.log.info({ url, mqtt: service.settings.mqttUrl }, 'serving');
  }

  /** Waits for the active lock, if it is not held yet, and starts the clock monitor, which follows its renewals. */
  async #activate(): Promise<ClockMonitor> {
    const { log, clock } = this.#options;
    if (this.#canStandBy) {
      log.info({}, 'standby: waiting for the active lock');
      if (this.#activation === null) await this.#lock.acquire(this.#waiting.signal);
    }
    const sample = (await this.#activation?.acquire(this.#waiting.signal)) ?? null;
    const clockMonitor = clock ? fixedClockMonitor(clock) : startClockMonitor(this.#host, sample, log);
    this.#lock.onRenewed(clockMonitor.observe);
    this.#clockMonitor = clockMonitor;
    this.#lease = this.#lock.lease;
    this.#lock.onLost(() => this.#onLockLost());
    return clockMonitor;
  }

  #onLockLost(): void {
    this.#lockLost = true;
    this.#waiting.abort();
    this.#stopDelay.abort();
    this.#service?.abort();
    this.#server.closeAllConnections();
    this.#server.close();
    this.#options.log.error({}, 'active lock lost; stopping');
    this.#options.onFatal?.('the active lock was lost');
  }

  #reportFailedStart(error: Error): void {
    if (this.#stopping === null && !this.#lockLost)
      this.#options.onFatal?.(`the service failed to start: ${error.message}`);
  }

  /** Closes everything that a failed start has opened, then throws. */
  async #abandonStart(error: unknown): Promise<never> {
    this.#server.close();
    await this.#service?.close(Promise.resolve());
    this.#clockMonitor?.stop();
    await this.#embedded?.thread.close();
    await this.#lock.release();
    throw listenFault(this.#config, error);
  }

  /**
   * A node among others hands over its shards first, and serves or forwards requests meanwhile; with a delay, every
   * active process goes on serving until load balancers have noticed.
   */
  async #handOverAndClose(): Promise<void> {
    const pending = [this.#service?.handOver() ?? null, this.#delayStop()].filter((one) => one !== null);
    if (pending.length > 0) await Promise.all(pending);
    this.#stopping = this.#close();
    await this.#stopping;
  }

  /** Null without a delay. */
  #delayStop(): Promise<void> | null {
    const delayMs = this.#config.stopDelayS * 1_000;
    if (delayMs === 0 || this.#service === null || this.#lockLost) return null;
    return after(delayMs, undefined, { signal: this.#stopDelay.signal }).catch(() => {});
  }

  async #close(): Promise<void> {
    const server = this.#server;
    this.#waiting.abort();
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    const idle = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_MS);
    await this.active.catch(() => {});
    await this.#service?.close(Promise.race([closed, after(DRAIN_REQUESTS_MS, undefined, { ref: false })]));
    this.#clockMonitor?.stop();
    clearInterval(idle);
    server.closeAllConnections();
    await closed;
    await this.#lock.release();
  }
}

/** The lock of a process on PostgreSQL. */
const makeServerLock = ({ databaseUrl, dataDir, node }: Config, parts: AdvisoryLockParts): ActiveLock =>
  node === null || databaseUrl === null
    ? openLock({ databaseUrl, dataDir }, parts)
    : openSharedLock(databaseUrl, parts);

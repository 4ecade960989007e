import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { hostname } from 'node:os';
import { setTimeout as after } from 'node:timers/promises';
import { type Config, httpUrl, listenFault } from './config.ts';
import { guardWrites } from './domain/guard-writes.ts';
import type { Lease } from './domain/lease.ts';
import { handleProtocolErrors, serverLimits } from './edges/rest/server.ts';
import { makeStandbyListener, STANDBY_REFUSAL } from './edges/rest/standby.ts';
import { refuseUpgrade } from './edges/shared/upgrade.ts';
import { compileMachines } from './machines/versions.ts';
import { Activation } from './main/activation.ts';
import { type ActiveService, composeService, type StartOptions, type UpgradeHandler } from './main/active-service.ts';
import { type ClockMonitor, fixedClockMonitor, hostTime, startClockMonitor } from './main/clock-monitor.ts';
import { newId } from './main/ids.ts';
import { SERVICE_VERSION } from './operations/platform/system.ts';
import { readTokenKey, signToken } from './services/tokens.ts';
import { openLock, readDatabaseClock } from './store/open.ts';

export type { StartOptions };

/** A started service. */
export interface Service {
  /** Base URL of HTTP, without a trailing slash. */
  url: string;
  /** Null while the process is a standby. */
  mqttUrl(): string | null;
  /** Resolves when this process is the active one and serves requests. */
  active: Promise<void>;
  /** Rejects new requests, finishes those in flight, commits, closes. */
  stop(): Promise<void>;
}

const CLOSE_IDLE_MS = 100;
/** Maximum time for requests in flight during shutdown. */
const DRAIN_REQUESTS_MS = 4_000;

/**
 * Starts in this order: active lock → store → recovery after a crash → listeners. With `DATABASE_URL` HTTP listens from
 * the start and answers `standby` until this process is the active one; on the embedded store a second process throws
 * `OwnedByAnother`.
 */
export async function start(config: Config, options: StartOptions): Promise<Service> {
  const { log } = options;
  const startedAt = performance.now();
  const host = hostTime(options.wallClock);
  const node = { address: `${hostname()}:${config.port}`, build: SERVICE_VERSION };
  const lock = openLock(config, { log, node, ...(options.limits?.lock && { timing: options.limits.lock }) });
  const { databaseUrl } = config;
  const activation =
    databaseUrl === null || options.clock
      ? null
      : new Activation({
          ...{ lock, host, log, readClock: () => readDatabaseClock(databaseUrl) },
          checkMs: options.limits?.clockCheckMs,
        });
  let listener: RequestListener = makeStandbyListener({
    newId,
    uptimeS: () => (performance.now() - startedAt) / 1000,
    clockOffsetMs: () => activation?.untrustedOffsetMs() ?? null,
  });
  let upgrade: UpgradeHandler = (request, socket) => refuseUpgrade(request, socket, STANDBY_REFUSAL, { newId });
  let lease: Lease | null = null;
  const server = makeServer(config, (request, response) => listener(request, response));
  // A standby answers without a lease.
  server.on(config.tls === null ? 'connection' : 'secureConnection', (socket: Socket) =>
    guardWrites(socket, () => lease === null || lease.valid()),
  );
  server.on('upgrade', (request, socket, head) => upgrade(request, socket as never, head));
  const waiting = new AbortController();
  let clockMonitor: ClockMonitor | null = null;
  let service: ActiveService | null = null;
  let stopping: Promise<void> | null = null;

  const canStandBy = config.databaseUrl !== null;
  if (canStandBy) await listen(server, config).catch((error) => Promise.reject(listenFault(config, error)));
  // Before the lock is held, so that a takeover does not wait for it.
  compileMachines();
  if (!canStandBy) await lock.acquire(waiting.signal);

  const serve = async () => {
    if (canStandBy) {
      log.info({}, 'standby: waiting for the active lock');
      if (activation === null) await lock.acquire(waiting.signal);
    }
    const sample = (await activation?.acquire(waiting.signal)) ?? null;
    const startedClockMonitor = options.clock ? fixedClockMonitor(options.clock) : startClockMonitor(host, sample, log);
    lock.onRenewed(startedClockMonitor.observe);
    clockMonitor = startedClockMonitor;
    lease = lock.lease;
    let lost = false;
    lock.onLost(() => {
      lost = true;
      service?.abort();
      server.closeAllConnections();
      server.close();
      log.error({}, 'active lock lost; stopping');
      options.onFatal?.('the active lock was lost');
    });
    const composed = await composeService(config, {
      ...options,
      time: startedClockMonitor,
      lock,
      draining: () => stopping !== null,
    });
    service = composed;
    if (lost) composed.abort();
    if (!canStandBy) await listen(server, config);
    const url = urlOf(config, server);
    await composed.open(url);
    listener = composed.listener;
    upgrade = composed.upgrade;
    log.info({ url, mqtt: composed.settings.mqttUrl }, 'serving');
  };
  const active = serve();
  if (!canStandBy)
    await active.catch(async (error) => {
      server.close();
      await service?.close(Promise.resolve());
      clockMonitor?.stop();
      await lock.release();
      throw listenFault(config, error);
    });
  active.catch((error) => {
    if (stopping === null && canStandBy) options.onFatal?.(`the service failed to start: ${(error as Error).message}`);
  });

  return {
    url: urlOf(config, server),
    mqttUrl: () => service?.settings.mqttUrl ?? null,
    active,
    stop() {
      stopping ??= (async () => {
        waiting.abort();
        const closed = new Promise<void>((resolve) => server.close(() => resolve()));
        server.closeIdleConnections();
        const idle = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_MS);
        await active.catch(() => {});
        await service?.close(Promise.race([closed, after(DRAIN_REQUESTS_MS, undefined, { ref: false })]));
        clockMonitor?.stop();
        clearInterval(idle);
        server.closeAllConnections();
        await closed;
        await lock.release();
      })();
      return stopping;
    },
  };
}

/** Signs an internal token with the service's key, without a running service. */
export async function issueToken(
  pair: Config['keys']['tokenSigning'],
  token: { sub: string; email?: string; scope?: string; ttlS?: number },
): Promise<string> {
  return signToken(
    await readTokenKey(pair.privateKey.export({ format: 'jwk' })),
    { ...token, jti: newId() },
    Date.now(),
  );
}

function makeServer(config: Config, listener: RequestListener): Server {
  const server =
    config.tls === null
      ? createServer(serverLimits, listener)
      : createTlsServer({ ...serverLimits, ...config.tls, minVersion: 'TLSv1.2' }, listener);
  handleProtocolErrors(server, newId);
  return server;
}

function listen(server: Server, config: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.port, config.host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

const urlOf = (config: Config, server: Server): string => httpUrl(config, (server.address() as AddressInfo).port);

import { readFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as after } from 'node:timers/promises';
import { v7 } from 'uuid';
import { sameValue } from './actors/draft.ts';
import type { Limits } from './actors/limits.ts';
import { createRuntime, type Runtime } from './actors/runtime.ts';
import { type Config, httpUrl, listenFault, mqttUrl } from './config.ts';
import { type Clock, systemClock } from './domain/clock.ts';
import type { Log } from './domain/log.ts';
import { makeSealer } from './domain/sealing.ts';
import { signingKey } from './domain/signature.ts';
import type { Json } from './domain/values.ts';
import { type MqttEdge, openMqtt } from './edges/mqtt/edge.ts';
import type { MqttLimits } from './edges/mqtt/limits.ts';
import { metered } from './edges/mqtt/metered.ts';
import { userAuthentication } from './edges/mqtt/users.ts';
import { makeRest } from './edges/rest/listener.ts';
import { pages } from './edges/rest/pages.ts';
import { serverLimits, tend } from './edges/rest/server.ts';
import { makeStandby, STANDBY } from './edges/rest/standby.ts';
import { routes } from './edges/rest/table.ts';
import { internalTokens, makeIdentity } from './edges/shared/identity.ts';
import { type Metrics, makeMetrics } from './edges/shared/metrics.ts';
import { refuseUpgrade } from './edges/shared/upgrade.ts';
import { makeStateSockets, type StateSockets } from './edges/websocket/state-sockets.ts';
import type { CommandContext } from './machines/command-types.ts';
import { currentDefinition, definitionFor } from './machines/versions.ts';
import { parseChangelog } from './operations/changelog.ts';
import { loadFlags } from './operations/flags.ts';
import { makeHealth } from './operations/health.ts';
import { Locks } from './operations/locks.ts';
import { ManifestCache } from './operations/manifest-cache.ts';
import type { Services, Settings } from './operations/operation.ts';
import { makePerform } from './operations/perform.ts';
import { loadRevocations, readTokenKey, signToken, type TokenKey } from './operations/tokens.ts';
import { makeUsers } from './operations/users.ts';
import type { Store } from './store/contract.ts';
import { openCache, openLock, openStore } from './store/open.ts';

/** A started service. */
export interface Service {
  /** Where HTTP answers, without a slash at the end. */
  url: string;
  /** Null while the process stands by. */
  mqttUrl(): string | null;
  /** Resolves when this process is the active one and serves. */
  active: Promise<void>;
  /** Refuses new work, finishes what is in flight, commits, closes. */
  stop(): Promise<void>;
}

export interface StartOptions {
  log: Log;
  clock?: Clock;
  /** Called once when the service cannot go on: the right to be the active process is lost. */
  onFatal?(reason: string): void;
  /** Bounds other than the usual ones. */
  limits?: { runtime?: Partial<Limits>; mqtt?: Partial<MqttLimits> };
  /** Stands between the service and its store: a test's way to make the store fail at a chosen moment. */
  aroundStore?(store: Store): Store;
  /** Handed what the edges work with, before anything listens: for who runs the service inside a program of its own. */
  assembled?(services: Services): void;
}

const PRUNE_MS = 3_600_000;
const PRUNE_BATCH = 500;
const CLOSE_IDLE_MS = 100;
/** How long requests in flight may take at the end of the process. */
const DRAIN_REQUESTS_MS = 4_000;

/**
 * Starts in order: the right to be the active process → store → what a crash left → listeners. With `DATABASE_URL` HTTP
 * listens from the start and says `standby` until this process is the active one; on the embedded store a second
 * process throws `OwnedByAnother`.
 */
export async function start(config: Config, options: StartOptions): Promise<Service> {
  const clock = options.clock ?? systemClock;
  const { log } = options;
  const startedAt = clock.now();
  const standby = makeStandby({ newId: v7, uptimeS: () => (clock.now() - startedAt) / 1000 });
  let listener: RequestListener = standby;
  let upgrade: Upgrade = (request, socket) => refuseUpgrade(request, socket, STANDBY, { newId: v7 });
  const server = makeServer(config, (request, response) => listener(request, response));
  server.on('upgrade', (request, socket, head) => upgrade(request, socket as never, head));
  const lock = openLock(config);
  const waiting = new AbortController();
  let house: House | null = null;
  let stopping: Promise<void> | null = null;

  const stands = config.databaseUrl !== null;
  if (stands) await listen(server, config).catch((error) => Promise.reject(listenFault(config, error)));
  else await lock.acquire(waiting.signal);

  const serve = async () => {
    if (stands) {
      log.info({}, 'standing by until this process is the active one');
      await lock.acquire(waiting.signal);
    }
    let lost = false;
    lock.onLost(() => {
      lost = true;
      house?.abort();
      server.closeAllConnections();
      server.close();
      log.error({}, 'the lock of the active process is lost');
      options.onFatal?.('the lock of the active process is lost');
    });
    const built = await build(config, { ...options, clock, draining: () => stopping !== null });
    house = built;
    if (lost) built.abort();
    if (!stands) await listen(server, config);
    const url = urlOf(config, server);
    await built.open(url);
    listener = built.listener;
    upgrade = built.upgrade;
    log.info({ url, mqtt: built.settings.mqttUrl }, 'serving');
  };
  const active = serve();
  if (!stands)
    await active.catch(async (error) => {
      server.close();
      await house?.close(Promise.resolve());
      await lock.release();
      throw listenFault(config, error);
    });
  active.catch((error) => {
    if (stopping === null && stands) options.onFatal?.(`the service did not start: ${(error as Error).message}`);
  });

  return {
    url: urlOf(config, server),
    mqttUrl: () => house?.settings.mqttUrl ?? null,
    active,
    stop() {
      stopping ??= (async () => {
        waiting.abort();
        const closed = new Promise<void>((resolve) => server.close(() => resolve()));
        server.closeIdleConnections();
        const idle = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_MS);
        await active.catch(() => {});
        await house?.close(Promise.race([closed, after(DRAIN_REQUESTS_MS, undefined, { ref: false })]));
        clearInterval(idle);
        server.closeAllConnections();
        await closed;
        await lock.release();
      })();
      return stopping;
    },
  };
}

type Upgrade = MqttEdge['upgrade'];

/** What only the active process has. */
interface House {
  settings: Settings;
  listener: RequestListener;
  upgrade: Upgrade;
  /** Releases what a crash left, then listens. */
  open(url: string): Promise<void>;
  /** `answered` settles when the requests in flight are, or are waited for no more. */
  close(answered: Promise<void>): Promise<void>;
  /** Writes and says nothing more. */
  abort(): void;
}

async function build(
  config: Config,
  { clock, log, limits, aroundStore, assembled, draining }: StartOptions & { clock: Clock; draining(): boolean },
): Promise<House> {
  const opened = await openStore(config);
  const store = aroundStore?.(opened) ?? opened;
  const cache = await openCache(config);
  const metrics = makeMetrics();
  const runtime = createRuntime({
    store,
    definitions: (kind, version) => (version === undefined ? currentDefinition(kind) : definitionFor(kind, version)),
    clock,
    log,
    meter: metrics.runtime,
    ...(limits?.runtime && { limits: limits.runtime }),
  });
  const deviceKey = signingKey('ed25519', seedOf(config.keys.deviceSigning));
  const tokenKey = await tokenKeyOf(config);
  const users = makeUsers(store);
  const revocations = await loadRevocations(store.identity, clock);
  const flags = await loadFlags(store.identity);
  const settings: Settings = {
    apiBaseUrl: '',
    mqttUrl: '',
    betaDeviceLimit: config.betaDeviceLimit,
    defaultTier: config.defaultTier,
    cloudPublicKeys: [config.keys.deviceSigning.publicKey],
    changelog: parseChangelog(readFileSync(new URL('../CHANGELOG.md', import.meta.url), 'utf8')),
  };
  let mqtt: MqttEdge | null = null;
  let aborted = false;
  const sealer = makeSealer(config.keys.master.export(), config.keys.masterPrevious?.export());
  const services: Services = {
    store,
    cache,
    actors: runtime.actors,
    sessions: runtime.sessions,
    manifests: new ManifestCache(store.devices),
    locks: new Locks(),
    clock,
    newId: v7,
    seal: sealer.seal,
    open: sealer.open,
    flags: () => flags.current(),
    users,
    revocations,
    health: makeHealth({
      store,
      cache,
      clock,
      redis: config.redisUrl !== null,
      mqtt: () => (mqtt === null ? 'degraded' : 'operational'),
      worker: () => (runtime.actors.turns.paused ? 'degraded' : 'operational'),
    }),
    settings,
    log,
  };
  assembled?.(services);
  const identity = makeIdentity({ verifiers: [internalTokens(tokenKey, clock)], users, revocations, clock, newId: v7 });
  const sockets = makeStateSockets({ services, identity });
  measure(metrics, runtime, { mqtt: () => mqtt, sockets });
  const pruning = keepPruning(config, store, clock, log);
  return {
    settings,
    listener: makeRest({
      routes,
      pages: pages({ metrics, publicKeys: [tokenKey.publicJwk] }),
      identity,
      perform: makePerform(services),
      newId: v7,
      log,
      trustedProxies: config.trustedProxies,
      observe: metrics.request,
      draining,
    }),
    upgrade(request, socket, head) {
      const [path] = (request.url ?? '/').split('?', 1);
      if (path === '/mqtt' && mqtt) mqtt.upgrade(request, socket, head);
      else sockets.upgrade(request, socket, head);
    },
    async open(url) {
      if (!aborted) await runtime.start();
      if (aborted) throw new Error('the right to be the active process is lost');
      settings.apiBaseUrl = `${config.publicUrl ?? url}/v1`;
      mqtt = await openMqtt({
        services,
        settings: {
          host: config.host,
          port: config.mqttPort,
          tls: config.mqttTlsPort === null || config.tls === null ? null : { ...config.tls, port: config.mqttTlsPort },
          maxConnections: config.mqttMaxConnections,
          deviceRate: config.deviceRate,
        },
        signingKey: deviceKey,
        watches: (deviceId) => runtime.watches.of(deviceId),
        authenticateUser: userAuthentication(identity, v7),
        log,
        meter: metered(metrics),
        ...(limits?.mqtt && { limits: limits.mqtt }),
      });
      settings.mqttUrl = config.mqttPublicUrl ?? mqttUrl(config, mqtt);
      if (aborted) mqtt.abort();
    },
    async close(answered) {
      clearInterval(pruning);
      await Promise.all([sockets.close(), mqtt?.close(), answered]);
      await runtime.stop();
      await store.close();
      await cache.close();
    },
    abort() {
      aborted = true;
      clearInterval(pruning);
      runtime.halt();
      mqtt?.abort();
      void sockets.close();
    },
  };
}

/** Signs an internal token with the service's own key; needs no running service. */
export async function issueToken(
  pair: Config['keys']['tokenSigning'],
  token: { sub: string; email?: string; scope?: string; ttlS?: number },
): Promise<string> {
  return signToken(await readTokenKey(pair.privateKey.export({ format: 'jwk' })), { ...token, jti: v7() }, Date.now());
}

const tokenKeyOf = (config: Config): Promise<TokenKey> =>
  readTokenKey(config.keys.tokenSigning.privateKey.export({ format: 'jwk' }));

const seedOf = (pair: Config['keys']['deviceSigning']): string => pair.privateKey.export({ format: 'jwk' }).d as string;

/** What is read when somebody looks at the metrics. */
function measure(
  metrics: Metrics,
  runtime: Runtime,
  { mqtt, sockets }: { mqtt(): MqttEdge | null; sockets: StateSockets },
): void {
  const { actors, outbox, sessions, timers } = runtime;
  metrics.gauge('actors_live', 'Actors in memory', () => actors.stats().live);
  metrics.gauge('events_waiting', 'Events in all mailboxes', () => actors.stats().waiting);
  metrics.gauge('mailbox_deepest', 'Events in the fullest mailbox', () => actors.stats().deepest);
  metrics.gauge('outbox_age_seconds', 'Age of the oldest output that is not delivered', () => outbox.age() / 1000);
  metrics.gauge('timers_firing', 'Timers that are due and not answered', () => timers.due);
  metrics.gauge('device_sessions', 'Devices that are signed in', () => sessions.count());
  metrics.gauge('mqtt_connections_open', 'Open MQTT connections', () => mqtt()?.connections() ?? 0);
  metrics.gauge('websocket_connections_open', 'Open WebSocket connections', () => sockets.counts().connections);
  metrics.gauge(
    'websocket_bytes_waiting',
    'Bytes that WebSocket clients did not read yet',
    () => sockets.counts().buffered,
  );
  actors.onTransition(({ ref, snapshot }, _event, from) => {
    if (ref.kind !== 'command' || sameValue(lifecycleOf(from), lifecycleOf(snapshot.value))) return;
    metrics.command((snapshot.context as CommandContext).status);
  });
}

const lifecycleOf = (value: Json): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value.lifecycle ?? null) : value;

function makeServer(config: Config, listener: RequestListener): Server {
  const server =
    config.tls === null
      ? createServer(serverLimits, listener)
      : createTlsServer({ ...serverLimits, ...config.tls, minVersion: 'TLSv1.2' }, listener);
  tend(server, v7);
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

function keepPruning(config: Config, store: Store, clock: Clock, log: Log): NodeJS.Timeout {
  const timer = setInterval(() => {
    store.retention.prune(clock.now(), config.retentionDays, PRUNE_BATCH).catch((error) => {
      log.warn({ err: error }, 'old rows are pruned later');
    });
  }, PRUNE_MS);
  return timer.unref();
}

import { readFileSync } from 'node:fs';
import { tenantIdIn } from '../actors/owned-shards.ts';
import type { Config } from '../config.ts';
import { parseChangelog } from '../domain/changelog.ts';
import { makeSealer, type Sealer } from '../domain/sealing.ts';
import type { MqttEdge } from '../edges/mqtt/edge.ts';
import type { Authenticator } from '../edges/shared/authenticator.ts';
import { CognitiveLayer } from '../operations/cognition/cognition.ts';
import { plannerTimeoutResolver } from '../operations/cognition/planner-timeout.ts';
import type { OperationSettings, Services } from '../operations/operation.ts';
import { planStepResolver, planStepSyncResolver } from '../operations/plans/plan-step-resolver.ts';
import { AuditChain } from '../services/audit-chain.ts';
import { AuditWriter } from '../services/audit-writer.ts';
import { ConcurrencyLimiter } from '../services/concurrency-limiter.ts';
import { DeviceActivityLog } from '../services/device-activity-log.ts';
import { type Flags, loadFlags } from '../services/flags.ts';
import { Health } from '../services/health.ts';
import { KeyedLocks } from '../services/keyed-locks.ts';
import { ManifestCache } from '../services/manifest-cache.ts';
import { importAcceptedTokenKey, importTokenKey, type TokenKey } from '../services/tokens.ts';
import { SUB_KEYS_MIGRATION } from '../store/postgres/migrations.ts';
import { openArtifacts } from './artifacts.ts';
import { type CallerServices, loadCallerServices } from './caller-services.ts';
import type { Core } from './compose-core.ts';
import { announcedKeys } from './device-signing-keys.ts';
import { masterKeysOf } from './master-keys.ts';
import { makeSidecarRunner, type SidecarRunner } from './sidecar.ts';
import { makeSignInServices } from './sign-in-services.ts';

/** The services of the operations, and the parts of them that the edges and the shutdown use. */
export interface ComposedServices {
  services: Services;
  callers: CallerServices;
  audit: AuditWriter;
  flags: Flags;
  sealer: Sealer;
  tokenKey: TokenKey;
  sidecar: SidecarRunner;
}

/** Parts that are created after the services. */
export interface LaterParts {
  identity(): Pick<Authenticator, 'authenticate'>;
  verifyLogoutToken: Services['verifyLogoutToken'];
  /** Null until the MQTT edge is open. */
  mqtt(): MqttEdge | null;
  /** True from the request to stop on. */
  stopping(): boolean;
}

/** Creates the services of the operations. */
export async function composeServices(config: Config, core: Core, later: LaterParts): Promise<ComposedServices> {
  const { clock, newId, lease, log, limits, store, cache, rates, metrics, tracing, runtime, membership } = core;
  const tokenKey = await openTokenKey(config.keys);
  const callers = await loadCallerServices(core);
  const flags = await loadFlags(store.administration, callers.invalidations);
  const settings = initialSettings(config);
  const usesSubKeys = () => !core.contracts.ids.includes(SUB_KEYS_MIGRATION);
  const sealer = makeSealer(masterKeysOf(config.keys), usesSubKeys);
  const audit = composeAudit(core);
  const sidecar = makeSidecarRunner(config, { clock, lease, log, metrics, limits: limits.sidecar });
  const services: Services = {
    ...makeSignInServices({
      cache,
      clock,
      invalidations: callers.invalidations,
      sealer,
      tokenKey,
      identity: later.identity,
      verifyLogoutToken: later.verifyLogoutToken,
    }),
    ...{ store, cache, rates, clock, newId, log, settings, audit },
    auditChain: new AuditChain({ store, clock, log, retentionDays: config.retentionDays.journal }),
    auditExports: new ConcurrencyLimiter('audit_exports'),
    historyExports: new ConcurrencyLimiter('history_exports'),
    historyQueries: new ConcurrencyLimiter('history_queries'),
    newTenantId: () => tenantIdIn(membership?.shards.admitted ?? null, newId),
    ...callers,
    actors: tracing?.traceActors(runtime.actors) ?? runtime.actors,
    sessions: runtime.sessions,
    deviceActivity: new DeviceActivityLog(clock),
    manifests: new ManifestCache(store.devices),
    artifacts: openArtifacts(config, { store, settings, clock, newId, log }),
    locks: new KeyedLocks(),
    seal: sealer.seal,
    open: sealer.open,
    masterKeys: sealer,
    flags: () => flags.current(),
    setFlag: flags.set,
    sidecar: sidecar.sidecar,
    nodes: core.nodeAdministration,
    health: composeHealth(config, core, later),
  };
  return { services, callers, audit, flags, sealer, tokenKey, sidecar };
}

/** Registers the resolvers of plan outputs and opens the cognitive layer. */
export function composeCognition({ runtime }: Core, { services, flags }: ComposedServices): CognitiveLayer {
  const { outbox } = runtime;
  outbox.registerResolver('plan.ask', planStepResolver(services), planStepSyncResolver(services));
  outbox.registerResolver(
    'plan.unheard',
    plannerTimeoutResolver(services, (tenantId) => runtime.openedAt(tenantId)),
  );
  return new CognitiveLayer(services, flags);
}

/** The settings; the URLs follow when the listeners are open. */
const initialSettings = (config: Config): OperationSettings => ({
  apiBaseUrl: '',
  mqttUrl: '',
  betaDeviceLimit: config.betaDeviceLimit,
  publicCounts: config.metricsToken === null,
  defaultTier: config.defaultTier,
  sessionMaxAgeS: config.sessionMaxAgeS,
  rateLimits: config.rateLimits,
  credentialRateLimits: config.credentialRateLimits,
  historyRetention: config.historyRetention,
  historyBytes: config.historyBytes,
  commandRetentionDays: config.retentionDays.commands,
  addressRateLimit: config.addressRateLimit,
  quotas: config.quotas,
  cloudPublicKeys: announcedKeys(config.keys),
  changelog: parseChangelog(readFileSync(new URL('../../CHANGELOG.md', import.meta.url), 'utf8')),
});

async function openTokenKey({
  tokenSigning,
  tokenSigningNext,
  tokenSigningPrevious,
}: Config['keys']): Promise<TokenKey> {
  const others = [tokenSigningNext, tokenSigningPrevious].filter((key) => key !== null);
  return {
    ...(await importTokenKey(tokenSigning.privateKey.export({ format: 'jwk' }))),
    accepted: await Promise.all(others.map(({ publicKey }) => importAcceptedTokenKey(publicKey))),
  };
}

const composeAudit = ({ store, clock, newId, log, metrics }: Core): AuditWriter =>
  new AuditWriter({
    ...{ store, clock, newId, log },
    dropped: metrics.labelledCounter(
      'audit_dropped',
      'Refused attempts that were not written to the audit log',
      'outcome',
    ),
  });

const composeHealth = (config: Config, core: Core, { mqtt, stopping }: LaterParts): Health =>
  new Health({
    store: core.store,
    cache: core.cache,
    clock: core.clock,
    redis: config.redisUrl !== null,
    stopping,
    mqtt: () => (mqtt() === null ? 'degraded' : 'operational'),
    worker: () => (core.runtime.actors.groupCommit.paused ? 'degraded' : 'operational'),
    clockOffsets: core.clockMonitor.untrustedOffsets,
  });

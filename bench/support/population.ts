import { v7 } from 'uuid';
import { Runtime } from '../../src/actors/runtime.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { automaticManifest } from '../../src/domain/capability-registry.ts';
import { systemClock } from '../../src/domain/clock.ts';
import { secretBinding } from '../../src/domain/device-key.ts';
import type { Log } from '../../src/domain/log.ts';
import { makeSealer } from '../../src/domain/sealing.ts';
import type { Uuid } from '../../src/domain/values.ts';
import type { DeviceEvent } from '../../src/machines/device-types.ts';
import type { TenantEvent } from '../../src/machines/tenant-types.ts';
import { currentDefinition, definitionFor } from '../../src/machines/versions.ts';
import { newDeviceSecret } from '../../src/protocol/signature.ts';
import { importTokenKey, signToken, TOKEN_ISSUER } from '../../src/services/tokens.ts';
import type { Store } from '../../src/store/contract.ts';
import { openStore } from '../../src/store/open.ts';
import { deviceState } from './device-state.ts';
import type { DeviceIdentity } from './raw-device.ts';
import type { Deployment } from './service.ts';

/** A tenant with its devices, and a token of its owner. */
export interface Population {
  tenantId: Uuid;
  token: string;
  devices: DeviceIdentity[];
}

export interface PopulationOptions {
  /** Devices of each tenant. */
  devices: number;
  /** Each device has reported its 20 keys once and is offline. */
  reported?: boolean;
  /** Shard of each tenant; by default there is one tenant, in any shard. */
  shards?: readonly number[];
}

const BATCH = 2_000;
/** Tenants that are created at once: their devices are written in common batches. */
const TOGETHER = 16;
const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** Fills a fresh database with one tenant; see `populateTenants`. */
export async function populate(
  deployment: Deployment,
  options: Omit<PopulationOptions, 'shards'>,
): Promise<Population> {
  const [population] = await populateTenants(deployment, options);
  return population as Population;
}

/**
 * Fills a fresh database through the runtime, before a service runs on it: the state machines create every row, without
 * the cost of a request each.
 */
export async function populateTenants(deployment: Deployment, options: PopulationOptions): Promise<Population[]> {
  const config = readConfig(deployment.env);
  const store = await openStore(config);
  const runtime = new Runtime({
    store,
    definitions: (kind, version) => (version === undefined ? currentDefinition(kind) : definitionFor(kind, version)),
    clock: systemClock,
    log: silent,
    limits: { liveActors: 2 * BATCH },
  });
  await runtime.start();
  try {
    const shards = options.shards ?? [null];
    const tenants: Population[] = [];
    for (let from = 0; from < shards.length; from += TOGETHER) {
      const group = shards.slice(from, from + TOGETHER).map((shard, n) => {
        const sub = `bench-${from + n}`;
        return populateTenant({ config, store, runtime }, { ...options, shard, sub });
      });
      tenants.push(...(await Promise.all(group)));
    }
    return tenants;
  } finally {
    await runtime.stop();
    await store.close();
  }
}

async function populateTenant(
  { config, store, runtime }: { config: Config; store: Store; runtime: Runtime },
  { sub, shard, ...options }: PopulationOptions & { sub: string; shard: number | null },
): Promise<Population> {
  const at = systemClock.now();
  const owner = await store.identity.upsertUser({
    id: v7(),
    iss: TOKEN_ISSUER,
    sub,
    email: null,
    emailVerified: false,
    createdAt: at,
  });
  const tenantId = shard === null ? v7() : idInShard(shard);
  const registration: TenantEvent = {
    type: 'register',
    at,
    tenant: { id: tenantId, name: 'Bench', slug: `bench-${tenantId.slice(-12)}`, tier: 'free' },
    ownerId: owner.id,
  };
  await runtime.actors.create({ kind: 'tenant', id: tenantId }, registration);
  const homeId = v7();
  await store.records.insertHome({ id: homeId, tenantId, name: 'Home', timezone: null, createdAt: at });

  const register = makeRegistrar(config, { tenantId, homeId });
  const devices: DeviceIdentity[] = [];
  for (let from = 0; from < options.devices; from += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, options.devices - from) }, register);
    await Promise.all(
      batch.map(async ({ identity, event }) => {
        const ref = { kind: 'device', id: identity.deviceId } as const;
        const created = runtime.actors.create(ref, event);
        if (options.reported) {
          void runtime.actors.send(ref, firstReport(identity));
          await runtime.actors.send(ref, { type: 'presence.lost', at: systemClock.now() });
        }
        await created;
      }),
    );
    runtime.actors.passivate();
    for (const { identity } of batch) devices.push(identity);
  }
  return { tenantId, token: await ownerToken(config, sub), devices };
}

/** A shard is the last byte of the tenant's id. */
const idInShard = (shard: number): Uuid => `${v7().slice(0, -2)}${shard.toString(16).padStart(2, '0')}`;

function makeRegistrar(config: Config, { tenantId, homeId }: { tenantId: Uuid; homeId: Uuid }) {
  const sealer = makeSealer({ current: config.keys.master.export() });
  return (): { identity: DeviceIdentity; event: DeviceEvent } => {
    const id = v7();
    const at = systemClock.now();
    const secret = newDeviceSecret();
    const event: DeviceEvent = {
      type: 'register',
      at,
      device: {
        id,
        tenantId,
        deviceType: 'smart_light',
        category: 'light',
        name: null,
        homeId,
        roomId: null,
        metadata: {},
        signingAlg: 'hmac-sha256',
      },
      key: {
        keyVersion: 1,
        signingAlg: 'hmac-sha256',
        sealedSecret: sealer.seal(secret, secretBinding(id, 1)),
        publicKey: null,
        createdAt: at,
      },
      manifest: automaticManifest({ deviceId: id, tenantId, deviceType: 'smart_light' }),
    };
    return { identity: { deviceId: id, tenantId, secret, sequence: 1 }, event };
  };
}

function firstReport(identity: DeviceIdentity): DeviceEvent {
  const { deviceId } = identity;
  const sequenceNumber = identity.sequence;
  identity.sequence += 1;
  return {
    type: 'state.reported',
    at: systemClock.now(),
    by: { kind: 'device', id: deviceId },
    header: { sequenceNumber, messageId: `${deviceId}-${sequenceNumber}`, keyVersion: 1 },
    state: deviceState(0, deviceId),
    full: false,
    watches: [],
  };
}

async function ownerToken({ keys }: Config, sub: string): Promise<string> {
  const key = await importTokenKey(keys.tokenSigning.privateKey.export({ format: 'jwk' }) as never);
  return signToken(key, { sub, jti: v7(), ttlS: 86_400 }, systemClock.now());
}

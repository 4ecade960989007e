import { automaticManifest } from '../../src/domain/capability-registry.ts';
import type { Manifest } from '../../src/domain/manifest.ts';
import { WINDOW_SIZE } from '../../src/domain/replay-window.ts';
import { completeManifest } from '../../src/domain/tenant-manifest.ts';
import type { JsonObject, Uuid } from '../../src/domain/values.ts';
import { compiledMachine } from '../../src/machines/compiled.ts';
import type { Snapshot } from '../../src/machines/definition.ts';
import type { DeviceContext } from '../../src/machines/device-types.ts';
import { currentDefinition } from '../../src/machines/versions.ts';
import type { DeviceStore, Store, StoredActor } from '../../src/store/contract.ts';
import { flatContext } from '../../test/support/stored-context.ts';
import { deviceState } from '../support/device-state.ts';

/*
 * A store without rows: each row is generated on request, as text that is parsed, so that the measured memory belongs
 * to the runtime and is not shared with a store.
 */

const TENANT = '01900000-0000-7000-8000-00000000ffff';
const NOW = 1_790_000_000_000;

export const idOf = (index: number): Uuid => `01900000-0000-7000-8000-${String(index).padStart(12, '0')}`;
const indexOf = (id: Uuid): number => Number(id.slice(-12));

export const hasOwnManifest = (index: number): boolean => index % 10 === 0;

/** Stored form of a device that reported 20 keys and has a full replay window, created by the state machine. */
function storedText(index: number): string {
  const definition = currentDefinition('device');
  const id = idOf(index);
  const manifest = manifestOf(id);
  const table = compiledMachine(definition.machine);
  let snapshot = table.transition(table.initial, {
    type: 'register',
    at: NOW,
    device: {
      id,
      tenantId: TENANT,
      deviceType: 'smart_light',
      category: 'light',
      name: `Lamp ${id}`,
      homeId: idOf(index),
      roomId: idOf(index),
      metadata: {},
      signingAlg: 'hmac-sha256',
    },
    key: { keyVersion: 1, signingAlg: 'hmac-sha256', sealedSecret: 's1', publicKey: null, createdAt: NOW },
    manifest,
  } as never).snapshot;
  for (let sequenceNumber = 1; sequenceNumber <= WINDOW_SIZE; sequenceNumber += 1) {
    snapshot = table.transition(snapshot, {
      type: 'state.reported',
      at: NOW,
      header: { sequenceNumber, messageId: `${id}-${sequenceNumber}`, keyVersion: 1 },
      state: deviceState(sequenceNumber, id),
      full: false,
      watches: [],
    } as never).snapshot;
  }
  const reached = snapshot as unknown as Snapshot<DeviceContext>;
  return JSON.stringify({
    ref: { kind: 'device', id },
    tenantId: TENANT,
    version: WINDOW_SIZE + 1,
    machineVersion: definition.version,
    value: reached.value,
    context: flatContext(definition.toStored(reached.context)),
    since: NOW,
    quarantine: null,
  });
}

function manifestOf(deviceId: Uuid): Manifest {
  const automatic = automaticManifest({ deviceId, tenantId: TENANT, deviceType: 'smart_light' });
  if (automatic === null) throw new Error('a light has an automatic manifest');
  if (!hasOwnManifest(indexOf(deviceId))) return automatic;
  const params: JsonObject = { type: 'object', properties: { level: { type: 'integer', minimum: 0, maximum: 100 } } };
  const own = completeManifest({
    capabilities: ['turn_on', 'turn_off', 'set_scene', 'set_brightness', 'identify', 'blink'].map((action) => ({
      action,
      description: `What ${action} does on ${deviceId}`,
      ...(action === 'set_scene' || action === 'blink' ? { paramSchema: params } : {}),
    })),
  });
  if (!own.ok) throw new Error(own.refusal.detail);
  return { ...automatic, version: 2, own: true, capabilities: own.value };
}

/** A new object each time, including its strings. */
const deepCopy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** The methods of a store that the runtime and the manifest cache use. */
export function generatedStore(): Store {
  const templates = [storedText(0), storedText(1)] as const;
  const ids = [idOf(0), idOf(1)] as const;
  const row = (id: Uuid): StoredActor => {
    const kind = hasOwnManifest(indexOf(id)) ? 0 : 1;
    return JSON.parse(templates[kind].replaceAll(ids[kind], id)) as StoredActor;
  };
  const devices: Partial<DeviceStore> = {
    online: async () => [],
    flushPresence: async () => {},
    manifests: async (requestedIds) => requestedIds.map((id) => deepCopy(manifestOf(id))),
  };
  return {
    actors: {
      load: async (_kind: string, requestedIds: readonly Uuid[]) => requestedIds.map(row),
      commit: async () => ({ lost: [] }),
      pendingOutbox: async () => [],
      nextTimerAt: async () => null,
      dueTimers: async () => [],
      dropTimers: async () => {},
      postponeTimer: async () => {},
    },
    devices,
    commands: { awaitingVerification: async () => [], deliverable: async () => [], open: async () => [] },
    batchesInFlight: 2,
  } as unknown as Store;
}

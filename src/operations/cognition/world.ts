import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { ContextInput } from '../../domain/cognition.ts';
import type { Json, JsonObject, Milliseconds, Uuid } from '../../domain/values.ts';
import { isOnline } from '../../machines/device-record.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import { payloadHash } from '../../protocol/canonical.ts';
import type { LastReport } from '../../store/contract/commands.ts';
import type { Position } from '../../store/contract.ts';
import { belongsTo, type CommittedDevice, isRevoked } from '../devices/device-view.ts';
import type { Services } from '../operation.ts';
import { MAX_WORLD_DEVICES, type World, type WorldDevice, type WorldQuery } from './contract.ts';

// The sidecar's view of a tenant: the devices in reach of a context.

const PAGE = 200;

export interface WorldReader {
  load(query: WorldQuery): Promise<World>;
  stateOf(tenantId: Uuid, deviceId: Uuid): Promise<JsonObject | null>;
}

export type ContextReach = Pick<ContextInput, 'kind' | 'homeId' | 'deviceId'>;

/** Whether this device is in reach of this context; other devices are answered as missing. */
export const inReach = (
  { kind, homeId, deviceId }: ContextReach,
  { fixed: { id, homeId: home } }: DeviceContext,
): boolean => (kind === 'device' ? id === deviceId : homeId === null || home === homeId);

export function makeWorldReader(services: Pick<Services, 'actors' | 'store' | 'manifests'>): WorldReader {
  const { actors, store, manifests } = services;

  async function roomNames(tenantId: Uuid, ids: ReadonlySet<Uuid>): Promise<Map<Uuid, string>> {
    const rooms = ids.size === 0 ? [] : await store.records.findRooms(tenantId, [...ids]);
    return new Map(rooms.map(({ id, name }) => [id, name]));
  }

  /** Ids from the device list, which can filter by home; the data comes from the committed state. */
  async function idsOf({ tenantId, homeId, deviceId }: WorldQuery): Promise<Uuid[]> {
    if (deviceId) return [deviceId];
    const ids: Uuid[] = [];
    const filter = { revoked: false, ...(homeId !== null && { homeId }) };
    let after: Position | undefined;
    do {
      const page = await store.devices.list(tenantId, filter, Math.min(PAGE, MAX_WORLD_DEVICES - ids.length), after);
      ids.push(...page.items.map(({ id }) => id));
      after = page.next ?? undefined;
    } while (after !== undefined && ids.length < MAX_WORLD_DEVICES);
    return ids.sort();
  }

  return {
    async load(query) {
      const { tenantId, homeId } = query;
      const ids = await idsOf(query);
      const read = await actors.readAll<DeviceContext>('device', ids);
      const devices = ids.flatMap((id) => {
        const device = read.get(id);
        return device && belongsTo(device, tenantId) && !isRevoked(device) ? [device] : [];
      });
      const contexts = devices.map(({ snapshot }) => snapshot.context.fixed);
      const known = await manifests.load(contexts);
      const names = await roomNames(tenantId, new Set(contexts.flatMap(({ roomId }) => roomId ?? [])));
      const outdated = await store.commands.devicesWithUnreportedCommands(tenantId, devices.flatMap(lastReportOf));
      const worldDevices = devices.map((device) => {
        const { id, roomId } = device.snapshot.context.fixed;
        const roomName = roomId === null ? undefined : names.get(roomId);
        return worldDeviceOf(device, { manifest: known.get(id) ?? null, roomName, stateOutdated: outdated.has(id) });
      });
      return { tenantId, homeId, devices: worldDevices, hash: await hashOfAll(worldDevices) };
    },

    async stateOf(tenantId, deviceId) {
      const device = await actors.read<DeviceContext>({ kind: 'device', id: deviceId });
      return device && belongsTo(device, tenantId) ? device.snapshot.context.live.state : null;
    },
  };
}

/** None for a device that has never reported: it has no state. */
function lastReportOf({ snapshot }: CommittedDevice): LastReport[] {
  const { fixed, live } = snapshot.context;
  return live.reported.at === null ? [] : [{ deviceId: fixed.id, at: live.reported.at }];
}

function worldDeviceOf(
  { snapshot }: CommittedDevice,
  {
    manifest,
    roomName,
    stateOutdated,
  }: Pick<WorldDevice, 'manifest' | 'stateOutdated'> & { roomName: string | undefined },
): WorldDevice {
  const { id, name, deviceType: type, category, homeId, roomId } = snapshot.context.fixed;
  const { state } = snapshot.context.live;
  const room = roomId === null ? null : { id: roomId, name: roomName ?? '' };
  return { id, name, type, category, homeId, room, online: isOnline(snapshot), state, stateOutdated, manifest };
}

// State objects are immutable and replaced on change, so only states that changed are hashed again.
const hashes = new WeakMap<JsonObject, string>();

function hashOf(state: JsonObject): string {
  const known = hashes.get(state);
  if (known !== undefined) return known;
  const hash = payloadHash(state);
  hashes.set(state, hash);
  return hash;
}

/** Maximum time to block the event loop while hashing states. */
const YIELD_AFTER_MS: Milliseconds = 5;

/** A manifest is represented by its version and a state by its hash, to keep the input short. */
async function hashOfAll(devices: readonly WorldDevice[]): Promise<string> {
  const lines: Json[] = [];
  let from = performance.now();
  for (const { manifest, room, state, ...rest } of devices) {
    lines.push({ ...rest, room: room && { ...room }, state: hashOf(state), manifest: manifest?.version ?? 0 });
    if (performance.now() - from < YIELD_AFTER_MS) continue;
    await yieldToEventLoop();
    from = performance.now();
  }
  return payloadHash(lines);
}

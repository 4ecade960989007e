import { LRUCache } from 'lru-cache';
import { automaticManifest } from '../domain/capability-registry.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { jsonBytes, jsonEqual } from '../domain/json/value.ts';
import type { Manifest } from '../domain/manifest.ts';
import { withClassFloors } from '../domain/tenant-manifest.ts';
import type { Json, Uuid } from '../domain/values.ts';
import type { DeviceStore } from '../store/contract.ts';

const MAX_MANIFESTS = 50_000;
const MAX_BYTES = 64 * 1024 * 1024;
/** What an entry costs whose capabilities are the registry's own. */
const ENTRY_BYTES = 256;

/** A device whose manifest is wanted, by its committed state; version 0 is none. */
export interface ManifestRef {
  id: Uuid;
  manifestVersion: number;
}

/**
 * Manifests lately used, so that the gateway need not ask the store. One of another version than the device has is not
 * answered: the device's committed state says which one stands.
 */
export class ManifestCache {
  private readonly cache: LRUCache<Uuid, Manifest>;
  private readonly devices: Pick<DeviceStore, 'manifests'>;

  constructor(devices: Pick<DeviceStore, 'manifests'>) {
    this.devices = devices;
    this.cache = new LRUCache({
      max: MAX_MANIFESTS,
      maxSize: MAX_BYTES,
      sizeCalculation: ({ capabilities }) =>
        ENTRY_BYTES + (Object.isFrozen(capabilities) ? 0 : jsonBytes(capabilities as unknown as Json)),
    });
  }

  sizes(): CollectionSizes {
    return { manifests: this.cache.size };
  }

  /** Undefined: ask `of`. */
  peek({ id, manifestVersion }: ManifestRef): Manifest | null | undefined {
    if (manifestVersion === 0) return null;
    const kept = this.cache.get(id);
    return kept?.version === manifestVersion ? kept : undefined;
  }

  /** The manifests of these devices, in one query for those not at hand; devices without one are left out. */
  async load(holders: readonly ManifestRef[]): Promise<Map<Uuid, Manifest>> {
    const found = new Map<Uuid, Manifest>();
    const missing: Uuid[] = [];
    for (const holder of holders) {
      const kept = this.peek(holder);
      if (kept) found.set(holder.id, kept);
      else if (kept === undefined) missing.push(holder.id);
    }
    if (missing.length === 0) return found;
    for (const manifest of await this.devices.manifests(missing)) found.set(manifest.deviceId, this.put(manifest));
    return found;
  }

  /** The device is deleted. */
  delete(deviceId: Uuid): void {
    this.cache.delete(deviceId);
  }

  /** Remembers a committed manifest. Answers the one that is kept: an automatic one shares the registry's parts. */
  put(manifest: Manifest): Manifest {
    const whole = shareCapabilities(manifest);
    const kept = this.cache.peek(manifest.deviceId);
    if (kept === undefined || kept.version <= manifest.version) this.cache.set(manifest.deviceId, whole);
    return whole;
  }
}

// What the store gives back is a copy of its own; a hundred thousand lights need one list of what a light can do.
function shareCapabilities(manifest: Manifest): Manifest {
  const { deviceId, tenantId, category, own, capabilities } = manifest;
  if (own) return withClassFloors(manifest);
  if (category === null) return manifest;
  const shared = automaticManifest({ deviceId, tenantId, deviceType: category });
  const same = shared !== null && jsonEqual(shared.capabilities as unknown as Json, capabilities as unknown as Json);
  return same ? { ...manifest, capabilities: shared.capabilities } : manifest;
}

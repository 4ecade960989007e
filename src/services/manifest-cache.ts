import { LRUCache } from 'lru-cache';
import { automaticManifest } from '../domain/capability-registry.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { isObject, jsonBytes, jsonEqual } from '../domain/json/value.ts';
import type { Manifest } from '../domain/manifest.ts';
import { withClassFloors } from '../domain/tenant-manifest.ts';
import type { Json, Uuid } from '../domain/values.ts';
import type { DeviceStore } from '../store/contract.ts';

const MAX_BYTES = 64 * 1024 * 1024;
/** Measured size of an entry that shares the registry's capabilities, with its part of the cache's arrays and its map. */
const ENTRY_BYTES = 320;

/** A device's current manifest version, from its committed state; 0 means that it has none. */
export interface ManifestRef {
  id: Uuid;
  manifestVersion: number;
}

/**
 * LRU cache of manifests, so that the gateway rarely queries the store. An entry counts only if its version is the one
 * in the device's committed state.
 */
export class ManifestCache {
  readonly #cache: LRUCache<Uuid, Manifest>;
  readonly #devices: Pick<DeviceStore, 'manifests'>;

  constructor(devices: Pick<DeviceStore, 'manifests'>) {
    this.#devices = devices;
    this.#cache = new LRUCache({
      maxSize: MAX_BYTES,
      sizeCalculation: ({ capabilities, properties = {}, removed = [] }) =>
        ENTRY_BYTES +
        (Object.isFrozen(capabilities) ? 0 : jsonBytes(capabilities as unknown as Json)) +
        jsonBytes(properties as unknown as Json) +
        jsonBytes(removed as unknown as Json),
    });
  }

  sizes(): CollectionSizes {
    return { manifests: this.#cache.size };
  }

  /** From memory only; undefined on a miss: call `load`. */
  peek({ id, manifestVersion }: ManifestRef): Manifest | null | undefined {
    if (manifestVersion === 0) return null;
    const cached = this.#cache.get(id);
    return cached?.version === manifestVersion ? cached : undefined;
  }

  /** The manifests of these devices, with one query for all misses; devices without a manifest are left out. */
  async load(refs: readonly ManifestRef[]): Promise<Map<Uuid, Manifest>> {
    const found = new Map<Uuid, Manifest>();
    const missing: Uuid[] = [];
    for (const ref of refs) {
      const cached = this.peek(ref);
      if (cached) found.set(ref.id, cached);
      else if (cached === undefined) missing.push(ref.id);
    }
    if (missing.length === 0) return found;
    for (const manifest of await this.#devices.manifests(missing)) found.set(manifest.deviceId, this.put(manifest));
    return found;
  }

  /** Called when the device is deleted. */
  delete(deviceId: Uuid): void {
    this.#cache.delete(deviceId);
  }

  /** Caches a committed manifest and returns the cached form: an automatic one shares the registry's capabilities. */
  put(manifest: Manifest): Manifest {
    const entry = shareCapabilities(manifest);
    const cached = this.#cache.peek(manifest.deviceId);
    if (cached === undefined || cached.version <= manifest.version) this.#cache.set(manifest.deviceId, entry);
    return entry;
  }
}

// The store returns a copy for each device; 100,000 lights can share one list of capabilities.
function shareCapabilities(manifest: Manifest): Manifest {
  const { deviceId, tenantId, category, own, capabilities } = manifest;
  if (own) return withClassFloors(manifest);
  if (category === null) return manifest;
  const shared = automaticManifest({ deviceId, tenantId, deviceType: category });
  const same =
    shared !== null && differOnlyInDefaults(shared.capabilities as unknown as Json, capabilities as unknown as Json);
  return same ? { ...manifest, capabilities: shared.capabilities } : manifest;
}

/**
 * An automatic manifest stored by an earlier build may have other descriptions, units and default timeouts: the registry's
 * current ones are in effect.
 */
const differOnlyInDefaults = (a: Json, b: Json): boolean =>
  jsonEqual(a, b) || jsonEqual(withoutDefaults(a), withoutDefaults(b));

function withoutDefaults(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutDefaults);
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(
    ([name, member]) =>
      !((name === 'description' || name === 'unit') && typeof member === 'string') &&
      !(name === 'timeout_s' && typeof member === 'number') &&
      !(name === 'units' && isObject(member)),
  );
  return Object.fromEntries(members.map(([name, member]) => [name, withoutDefaults(member)]));
}

import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { automaticManifest } from '../../src/domain/capability-registry.ts';
import type { Manifest } from '../../src/domain/manifest.ts';
import { ManifestCache } from '../../src/services/manifest-cache.ts';

let requested: (readonly string[])[];
let stored: Map<string, Manifest>;
let cache: ManifestCache;

beforeEach(() => {
  requested = [];
  stored = new Map();
  cache = new ManifestCache({
    manifests: async (ids) => {
      requested.push(ids);
      return ids.flatMap((id) => structuredClone(stored.get(id)) ?? []);
    },
  });
});

function manifest(more: Partial<Manifest> = {}): Manifest {
  const made = automaticManifest({ deviceId: v7(), tenantId: v7(), deviceType: 'light' }) as Manifest;
  const whole = { ...made, ...more };
  stored.set(whole.deviceId, whole);
  return whole;
}
const holder = ({ deviceId, version }: Manifest) => ({ id: deviceId, manifestVersion: version });

describe('ManifestCache', () => {
  it('loads all missing manifests with one query', async () => {
    const [a, b, c] = [manifest(), manifest(), manifest()];
    cache.put(a);
    const found = await cache.load([a, b, c].map(holder));
    expect([...found.keys()].sort()).toEqual([a, b, c].map(({ deviceId }) => deviceId).sort());
    expect(requested).toEqual([[b.deviceId, c.deviceId]]);
    await cache.load([a, b, c].map(holder));
    expect(requested).toHaveLength(1);
  });

  it('shows no action of a stored manifest below the registry’s class of its name, in any spelling', async () => {
    const given = [
      ['Unlock', 'NORMAL'],
      ['open-valve', 'NORMAL'],
      ['unlock', 'CRITICAL'],
      ['REBOOT', 'RESTRICTED'],
      ['sing', 'NORMAL'],
    ] as const;
    const capabilities = given.map(([action, safetyClass], n) => {
      const rest = { id: n + 1, description: '', paramSchema: { type: 'object' }, supportsDryRun: false };
      return { action, safetyClass, ...rest };
    });
    const lowered = manifest({ version: 2, own: true, capabilities });
    const shown = (await cache.load([holder(lowered)])).get(lowered.deviceId);
    const classes = (one: Manifest | null | undefined) => one?.capabilities.map(({ safetyClass }) => safetyClass);
    expect(classes(shown)).toEqual(['CRITICAL', 'CRITICAL', 'CRITICAL', 'RESTRICTED', 'NORMAL']);
    expect(classes(cache.peek(holder(lowered)))).toEqual(classes(shown));
  });

  it('shows the registry’s descriptions, timeouts and units if an earlier build stored different ones of an automatic manifest', async () => {
    const current = manifest();
    const withoutUnits = (_: string, value: unknown) =>
      typeof value === 'object' && value !== null && 'unit' in value ? { ...value, unit: undefined } : value;
    const capabilities = current.capabilities.map(({ timeout_s: _, units: __, ...one }) => ({
      ...(JSON.parse(JSON.stringify(one, withoutUnits)) as typeof one),
      description: `${one.description}, as before`,
    }));
    expect(JSON.stringify(current.capabilities)).toContain('"unit":');
    expect(JSON.stringify(capabilities)).not.toContain('"unit":');
    const earlier = manifest({ capabilities });
    const other = manifest({ capabilities: capabilities.slice(1) });
    const found = await cache.load([current, earlier, other].map(holder));
    const listOf = ({ deviceId }: Manifest) => found.get(deviceId)?.capabilities;
    expect(listOf(earlier)).toEqual(current.capabilities);
    expect(listOf(earlier)).toBe(listOf(current));
    expect(listOf(other)).toEqual(other.capabilities);
  });

  it('answers for a device without a manifest without a query', async () => {
    const none = { id: v7(), manifestVersion: 0 };
    expect(cache.peek(none)).toBeNull();
    expect((await cache.load([none])).size).toBe(0);
    expect(requested).toEqual([]);
  });

  it('returns no other version than that of the device', async () => {
    const old = manifest({ version: 1 });
    cache.put(old);
    const current = { ...old, version: 2, own: true, capabilities: [] };
    stored.set(old.deviceId, current);
    expect(cache.peek(holder(current))).toBeUndefined();
    expect((await cache.load([holder(current)])).get(old.deviceId)).toEqual(current);
  });

  it('does not return to an older version that was read before', () => {
    const newer = manifest({ version: 3, own: true, capabilities: [] });
    cache.put(newer);
    cache.put({ ...newer, version: 2 });
    expect(cache.peek(holder(newer))).toEqual(newer);
  });

  it('shares stored copies of the registry', async () => {
    const [a, b] = [manifest(), manifest()];
    const found = await cache.load([a, b].map(holder));
    expect(found.get(a.deviceId)?.capabilities).toBe(found.get(b.deviceId)?.capabilities);
    expect(found.get(a.deviceId)?.capabilities).toBe(a.capabilities);
  });

  it('keeps an automatic manifest as stored if the registry has changed', async () => {
    const older = manifest();
    const [first] = older.capabilities;
    stored.set(older.deviceId, { ...older, capabilities: first ? [first] : [] });
    expect((await cache.load([holder(older)])).get(older.deviceId)?.capabilities).toEqual([first]);
  });

  it('keeps own manifests within its limit of bytes', () => {
    const description = 'x'.repeat(200_000);
    const made = Array.from({ length: 400 }, () => {
      const { capabilities, ...rest } = manifest({ own: true });
      return cache.put({ ...rest, capabilities: capabilities.slice(0, 1).map((one) => ({ ...one, description })) });
    });
    const kept = made.filter((one) => cache.peek(holder(one)) !== undefined);
    expect(kept.length).toBeGreaterThan(300);
    expect(kept.length).toBeLessThan(340);
  });

  it('counts the properties and the removed actions of manifests in that limit', () => {
    const text = 'x'.repeat(200_000);
    const [removed] = manifest().capabilities.map((one) => ({ ...one, paramSchema: { description: text } }));
    for (const large of [{ properties: { a: { label: text } } }, { removed: removed ? [removed] : [] }]) {
      const made = Array.from({ length: 400 }, () => cache.put(manifest({ own: true, capabilities: [], ...large })));
      const kept = made.filter((one) => cache.peek(holder(one)) !== undefined);
      expect(kept.length).toBeGreaterThan(300);
      expect(kept.length).toBeLessThan(340);
    }
  });
});

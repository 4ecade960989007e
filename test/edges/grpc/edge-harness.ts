import { onTestFinished } from 'vitest';
import type { Committed } from '../../../src/actors/contract.ts';
import { EventBus } from '../../../src/actors/event-bus.ts';
import { automaticManifest } from '../../../src/domain/capability-registry.ts';
import { type Lease, unlimitedLease } from '../../../src/domain/lease.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import { openSidecarEdge, type SidecarEdge } from '../../../src/edges/grpc/edge.ts';
import type { SidecarLimits } from '../../../src/edges/grpc/sidecar-limits.ts';
import type { ContextParts } from '../../../src/machines/definition.ts';
import type { ActorRef } from '../../../src/machines/outputs.ts';
import { newId } from '../../../src/main/ids.ts';
import type { WorldDevice } from '../../../src/operations/cognition/contract.ts';
import { MemoryCognition } from '../../support/memory-cognition.ts';
import { freePort } from '../../support/programs.ts';
import { startSidecar, type TestSidecar } from '../../support/sidecar.ts';

export interface EdgeHarness {
  edge: SidecarEdge;
  cognition: MemoryCognition;
  address: string;
  tenantId: string;
  homeId: string;
  /** Counters by name. */
  counts: Map<string, number>;
  lines: { level: string; fields: object; message: string }[];
  /** Creates a device in the home, or in another one. */
  device(given?: Partial<WorldDevice> & { tenantId?: string }): WorldDevice;
  /** The device reports a new state. */
  report(device: WorldDevice, state: JsonObject): void;
  /** Moves the device to another home. */
  place(device: WorldDevice, homeId: string | null): void;
  /** A sidecar at the address to which the service connects. */
  sidecar(options?: { headers?: boolean; reads?(): boolean }): Promise<TestSidecar>;
}

/** Only the gRPC edge, with cognition in memory and a port that is not shared. */
export async function service(
  limits: Partial<SidecarLimits> = {},
  lease: Pick<Lease, 'valid'> = unlimitedLease,
): Promise<EdgeHarness> {
  const port = await freePort();
  const cognition = new MemoryCognition();
  const lines: EdgeHarness['lines'] = [];
  const level = (name: string) => (fields: object, message: string) =>
    void lines.push({ level: name, fields, message });
  const log = { debug: level('debug'), info: level('info'), warn: level('warn'), error: level('error') };
  const subscribers = new EventBus(log);
  const counts = new Map<string, number>();
  const count = (what: string) => void counts.set(what, (counts.get(what) ?? 0) + 1);
  const homes = new Map<string, string | null>();
  const edge = openSidecarEdge({
    address: () => `127.0.0.1:${port}`,
    cognition,
    services: {
      actors: {
        subscribe: subscribers.subscribe.bind(subscribers),
        subscribeTransitions: subscribers.subscribeTransitions.bind(subscribers),
        /** The edge reads only the home of a device. */
        peek: <Context extends ContextParts>({ id }: ActorRef) =>
          ({ snapshot: { context: { fixed: { homeId: homes.get(id) ?? null } } } }) as unknown as Committed<Context>,
      },
      manifests: { load: async () => new Map() },
    },
    clock: { now: () => Date.now() },
    lease,
    log,
    meter: {
      eventSent: (kind) => count(`told ${kind}`),
      proposalReceived: (kind) => count(`heard ${kind}`),
      proposalRefused: (code) => count(`refused ${code}`),
      streamChanged: (what) => count(what),
    },
    limits: { backoff: { firstMs: 20, maxMs: 60 }, coalesceMs: 100, idleHomeIntervalMs: 20, ...limits },
  });
  cognition.notify = (change) => edge.notify(change);
  onTestFinished(() => edge.close());
  const tenantId = newId();
  const homeId = newId();
  return {
    ...{ edge, cognition, tenantId, homeId, counts, lines, address: `127.0.0.1:${port}` },
    device(given = {}) {
      const id = newId();
      const manifest = automaticManifest({ deviceId: id, tenantId, deviceType: 'light' });
      const device: WorldDevice & { tenantId: string } = {
        ...{ id, tenantId, homeId, name: 'Lamp', type: 'smart_light', category: 'light', room: null, online: true },
        ...{ state: {}, stateOutdated: false, manifest, ...given },
      };
      cognition.devices.push(device);
      homes.set(device.id, device.homeId);
      return device;
    },
    report(device, state) {
      device.state = state;
      const at = Date.now();
      const report = { report: state, deviceAt: at, sequence: 1 };
      subscribers.emit({ type: 'device.state', tenantId, deviceId: device.id, state, stateVersion: 1, ...report, at });
    },
    place(device, homeId) {
      device.homeId = homeId;
      homes.set(device.id, homeId);
      const context = { fixed: { id: device.id, tenantId } };
      const committed = { ref: { kind: 'device', id: device.id }, snapshot: { context } } as unknown as Committed;
      subscribers.emitTransition(committed, { type: 'patch', at: Date.now() }, null);
    },
    async sidecar(options = {}) {
      const sidecar = await startSidecar({ port, ...options });
      onTestFinished(() => sidecar.kill());
      return sidecar;
    },
  };
}

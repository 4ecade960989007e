import { fromJson, toBinary } from '@bufbuild/protobuf';
import { ValueSchema } from '@bufbuild/protobuf/wkt';
import { describe, expect, it } from 'vitest';
import { NodeState, PerceptionUpdateSchema } from '#proto/cognition/v1/runtime_pb.js';
import { automaticManifest } from '../../../src/domain/capability-registry.ts';
import type { Memory } from '../../../src/domain/memory.ts';
import type { Json } from '../../../src/domain/values.ts';
import { buildPerceptionUpdate, type PerceptionInput } from '../../../src/edges/grpc/perception.ts';
import { maxProtobufBytes } from '../../../src/edges/grpc/protobuf-size.ts';
import { newId } from '../../../src/main/ids.ts';
import type { ActiveContext, ContextNode, WorldDevice } from '../../../src/operations/cognition/contract.ts';
import { fc } from '../../support/properties.ts';

const tenantId = newId();
const homeId = newId();

const device = (given: Partial<WorldDevice> = {}): WorldDevice => ({
  ...{ id: newId(), name: 'Lamp', type: 'light', category: 'light', homeId, room: null, online: true, state: {} },
  stateOutdated: false,
  manifest: automaticManifest({ deviceId: newId(), tenantId, deviceType: 'light' }),
  ...given,
});
const node = (id: string, given: Partial<ContextNode> = {}): ContextNode => ({
  ...{ id, deviceId: newId(), action: 'turn_on', params: {}, dependsOn: [], compensation: null, timeoutS: null },
  ...{ status: 'pending', commandId: null, error: null },
  ...given,
});
const context = (given: Partial<ActiveContext> = {}): ActiveContext => ({
  ...{ id: newId(), kind: 'goal', tenantId, homeId, deviceId: null, text: 'x', action: null, data: null, note: null },
  ...{ phase: 'thinking', createdAt: 0, nodes: [] },
  ...given,
});
const memory = (given: Partial<Memory> = {}): Memory => ({
  ...{ id: newId(), tenantId, kind: 'preference', subject: null, content: 'dim', tags: [], source: 'user:x' },
  ...{ writer: null, adoption: null, createdAt: 0, expiresAt: null },
  ...given,
});
const shown = (given: Partial<PerceptionInput> = {}, devices: WorldDevice[] = []): PerceptionInput => ({
  ...{ tenantId, homeId, deviceId: null, contexts: [context()], contextsNotRead: 0, memories: [] },
  world: { tenantId, homeId, devices, hash: 'h' },
  ...given,
});
const MOST = 4 * 1024 * 1024;

describe('a perception', () => {
  it('never exceeds the default message limit of libraries, for any content', () => {
    // The largest possible update: encoded numbers take five times the size of their JSON text.
    const params = { levels: Array.from({ length: 4_000 }, () => 1) };
    const nodes = Array.from({ length: 100 }, (_, place) =>
      node(`${place}`, { params, compensation: { action: 'turn_off', params } }),
    );
    const contexts = Array.from({ length: 20 }, () =>
      context({ text: 'ä'.repeat(4_000), data: params, note: 'n'.repeat(4_000), nodes }),
    );
    const devices = Array.from({ length: 500 }, () => device({ state: { levels: Array(16_000).fill(1) } }));
    const memories = Array.from({ length: 250 }, () => memory({ content: 'm'.repeat(4_000) }));
    const notified = buildPerceptionUpdate(shown({ contexts, memories, contextsNotRead: 7 }, devices));
    expect(toBinary(PerceptionUpdateSchema, notified).length).toBeLessThan(MOST);
    expect(notified.activeContexts.length).toBeGreaterThan(0);
    expect(notified.contextsLeftOut).toBe(27 - notified.activeContexts.length);
    expect(notified.devicesLeftOut).toBe(500 - notified.devices.length);
    expect(notified.devices[0]).toMatchObject({ stateLeftOut: false });
    expect(notified.devices.at(-1)).toMatchObject({
      stateLeftOut: true,
      deviceId: devices[notified.devices.length - 1]?.id,
    });
    expect(notified.memories.length).toBeGreaterThan(0);
  });

  it('omits parameters before it omits nodes', () => {
    const large = node('large', { params: { text: 'x'.repeat(5_000) } });
    const [notified] = buildPerceptionUpdate(shown({ contexts: [context({ nodes: [large, node('small')] })] }), {
      ...{ contexts: 4_000, devices: 0, memories: 0 },
    }).activeContexts;
    expect(notified?.nodes).toMatchObject([
      { node: { nodeId: 'large' }, paramsLeftOut: true },
      { node: { nodeId: 'small', params: {} }, paramsLeftOut: false },
    ]);
    expect(notified?.nodes[0]?.node?.params).toBeUndefined();
  });

  it('contains the oldest context of any size, and the next ones while they fit', () => {
    const contexts = [context({ text: 'x'.repeat(2_000) }), context(), context()];
    const notified = buildPerceptionUpdate(shown({ contexts }), { contexts: 1_000, devices: 0, memories: 0 });
    expect(notified.activeContexts.map(({ contextId }) => contextId)).toEqual([contexts[0]?.id]);
    expect(notified.contextsLeftOut).toBe(2);
  });

  it('contains only the hash without a context', () => {
    const notified = buildPerceptionUpdate(shown({ contexts: [], memories: [memory()] }, [device()]));
    expect(notified).toMatchObject({
      tenantId,
      homeId,
      worldStateHash: 'h',
      devices: [],
      memories: [],
      activeContexts: [],
    });
  });

  it('contains the reason of a failed node, and proposed nodes of an observation', () => {
    const failed = node('a', {
      status: 'failed',
      commandId: newId(),
      error: { code: 'TIMED_OUT', detail: 'Silence.' },
    });
    const contexts = [context({ nodes: [failed] }), context({ kind: 'observation', nodes: [node('b')] })];
    const notified = buildPerceptionUpdate(shown({ contexts }));
    expect(notified.activeContexts.map(({ nodes }) => nodes[0])).toMatchObject([
      { state: NodeState.FAILED, commandId: failed.commandId, code: 'TIMED_OUT', detail: 'Silence.' },
      { state: NodeState.PROPOSED },
    ]);
  });

  it('contains a device without actions and reports', () => {
    const notified = buildPerceptionUpdate(
      shown({}, [device({ name: null, category: null, manifest: null, room: null })]),
    );
    expect(notified.devices).toMatchObject([{ name: '', category: '', capabilitySetId: '', roomId: '', state: {} }]);
  });

  it('estimates no JSON below its size on the wire', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const written = toBinary(ValueSchema, fromJson(ValueSchema, value as never)).length;
        expect(maxProtobufBytes(value as Json)).toBeGreaterThanOrEqual(written);
      }),
    );
  });
});

import { create, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { CognitionProposalSchema, NodeState } from '#proto/cognition/v1/runtime_pb.js';
import { newId } from '../../../src/main/ids.ts';
import { eventually } from '../../support/clock.ts';
import { fc } from '../../support/properties.ts';
import { service } from './edge-harness.ts';

describe('a malicious sidecar', () => {
  it('that reads nothing: waiting events are bounded, and sent again later', async () => {
    const { sidecar, cognition, device, edge, counts, tenantId, homeId } = await service({ maxQueuedEvents: 20 });
    const lamp = device({ state: { text: 'x'.repeat(30_000) } });
    const node = { id: 'off', deviceId: lamp.id, action: 'turn_off', params: {}, dependsOn: [], compensation: null };
    const nodes = [{ ...node, timeoutS: null, status: 'pending', commandId: null, error: null } as const];
    const { id } = cognition.open({ id: newId(), tenantId, homeId, nodes });
    const gone = cognition.open({ id: newId(), tenantId, homeId: newId() });
    let reads = false;
    const there = await sidecar({ reads: () => reads });
    await there.waitForStream();
    const outcome = {
      ...{ contextId: id, tenantId, homeId, at: 0, nodeId: 'off', deviceId: lamp.id, commandId: newId(), code: null },
      ...({ compensation: false, success: true, status: 'succeeded', verification: 'verified' } as const),
    };
    await eventually(() => {
      for (let turn = 0; turn < 10; turn++) edge.notify({ type: 'outcome', ...outcome });
      return counts.get('flooded') === 1;
    });
    reads = true;
    for (let turn = 0; turn < 10_000; turn++) edge.notify({ type: 'outcome', ...outcome });
    cognition.setNodeStatus(id, 'off', 'succeeded');
    cognition.interrupt(gone.id, 'CANCELLED');
    const stream = await there.waitForStream(2);
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    expect(stream.eventsOf('perceptionUpdate')[0]?.activeContexts).toMatchObject([
      { contextId: id, nodes: [{ state: NodeState.SUCCEEDED }] },
    ]);
    expect(stream.eventsOf('observationOutcome')).toEqual([]);
    expect(there.streams[0]?.ended).toBe(true);
  });

  it('that never reads again: it is disconnected, and dialled again', async () => {
    const { sidecar, cognition, device, tenantId, homeId, lines } = await service({ stallTimeoutMs: 300 });
    for (let count = 0; count < 30; count++) device({ state: { text: 'x'.repeat(30_000) } });
    const there = await sidecar({ reads: () => false });
    await there.waitForStream();
    await eventually(() => {
      cognition.open({ id: newId(), tenantId, homeId });
      return lines.some(({ fields }) => JSON.stringify(fields).includes('the sidecar is not reading'));
    });
    await there.waitForStream(2);
  });

  it('that floods: it is read no faster than its rate, and allowed proposals are executed', async () => {
    const { sidecar, cognition, counts } = await service({
      proposalRate: { perSecond: 100, burst: 50, bytesPerToken: 4_096 },
    });
    const there = await sidecar();
    const stream = await there.waitForStream();
    const from = performance.now();
    for (let count = 0; count < 3_000; count++)
      stream.send({ contextId: newId(), proposal: { case: 'complete', value: {} } });
    await eventually(() => (counts.get('heard complete') ?? 0) >= 100);
    const seconds = (performance.now() - from) / 1000;
    expect(seconds).toBeGreaterThan(0.4);
    // Messages in transit when reading stopped are processed too: at most as many as the library buffers.
    expect(counts.get('heard complete')).toBeLessThan(50 + 100 * seconds + 40);
    expect(cognition.calls.length).toBeLessThan(50 + 100 * seconds + 40);
  });

  it('that floods with few long messages: they count by their size', async () => {
    const { sidecar, counts } = await service({ proposalRate: { perSecond: 100, burst: 50, bytesPerToken: 4_096 } });
    const stream = await (await sidecar()).waitForStream();
    const from = performance.now();
    const params = { text: 'x'.repeat(10 * 4_096) };
    for (let count = 0; count < 200; count++) {
      stream.send({ contextId: newId(), proposal: { case: 'graphNode', value: { node: { nodeId: 'a', params } } } });
    }
    await eventually(() => (counts.get('heard graphNode') ?? 0) >= 25);
    const seconds = (performance.now() - from) / 1000;
    expect(counts.get('heard graphNode')).toBeLessThan((50 + 100 * seconds) / 10 + 25);
    expect(seconds).toBeGreaterThan(0.2);
  });

  it('that requests much slow work: no more than the in-flight limit is accepted', async () => {
    const { sidecar, cognition, counts, device, tenantId, homeId } = await service({ maxInFlightProposals: 8 });
    device();
    const stream = await (await sidecar()).waitForStream();
    const { id } = cognition.open({ id: newId(), tenantId, homeId });
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    cognition.beforeAnswer = () => held;
    for (let count = 0; count < 200; count++) stream.send({ contextId: id, proposal: { case: 'suspend', value: {} } });
    await eventually(() => (counts.get('heard suspend') ?? 0) >= 8);
    expect(counts.get('heard suspend')).toBeLessThan(8 + 40);
    release();
    await eventually(() => cognition.calls.length === 200);
  });

  it('that exceeds the message size: the stream ends, and the next one works', async () => {
    const { sidecar, cognition, edge, lines } = await service();
    const there = await sidecar();
    const stream = await there.waitForStream();
    stream.send({
      contextId: newId(),
      proposal: { case: 'error', value: { code: 'X', detail: 'x'.repeat(1024 * 1024) } },
    });
    await there.waitForStream(2);
    await eventually(() => edge.connected());
    expect(lines.some(({ fields }) => JSON.stringify(fields).includes('RESOURCE_EXHAUSTED'))).toBe(true);
    expect(cognition.calls).toEqual([]);
  });

  it('that sends invalid messages: the stream ends, and the next one works', async () => {
    const { sidecar, edge } = await service();
    const there = await sidecar();
    for (const [at, bytes] of [
      [1, [0xff, 0xff, 0xff, 0xff]],
      [2, [0x0a, 0x05, 0x61]],
      [3, [0x12, 0x02, 0xc3, 0x28]],
    ] as const) {
      (await there.waitForStream(at)).sendBytes(new Uint8Array(bytes));
      await there.waitForStream(at + 1);
    }
    await eventually(() => edge.connected());
  });

  it('that nests too deeply for a recursive parser is refused', async () => {
    const { sidecar, edge } = await service();
    const there = await sidecar();
    const length = (count: number): number[] => (count < 128 ? [count] : [(count & 127) | 128, ...length(count >>> 7)]);
    const field = (no: number, body: number[]) => [(no << 3) | 2, ...length(body.length), ...body];
    let value = field(3, [65]);
    for (let level = 0; level < 300; level++) value = field(5, field(1, [...field(1, [97]), ...field(2, value)]));
    (await there.waitForStream()).sendBytes(
      new Uint8Array(field(12, field(1, field(1, [...field(1, [97]), ...field(2, value)])))),
    );
    await there.waitForStream(2);
    await eventually(() => edge.connected());
  });

  it('that sends any well-formed message does not affect the service', async () => {
    const { sidecar, cognition, edge, device, tenantId, homeId } = await service({
      proposalRate: { perSecond: 10_000, burst: 10_000, bytesPerToken: 1024 * 1024 },
    });
    const lamp = device();
    const there = await sidecar();
    const stream = await there.waitForStream();
    const { id } = cognition.open({ id: newId(), tenantId, homeId });
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 80 }), fc.constantFrom(id, lamp.id, '__proto__', ''));
    const params = fc.option(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }), {
      nil: undefined,
    }) as fc.Arbitrary<Record<string, never> | undefined>;
    const node = fc.record({
      ...{ nodeId: text, deviceId: text, action: text, dependsOn: fc.array(text, { maxLength: 5 }) },
      ...{ timeoutS: fc.nat() },
    });
    const proposal = fc.oneof(
      fc.tuple(node, params).map(([value, given]) => ({
        case: 'graphNode' as const,
        value: { node: { ...value, ...(given && { params: given, compensation: { action: 'x', params: given } }) } },
      })),
      fc.record({ case: fc.constant('suspend' as const), value: fc.record({ reason: text, forS: fc.nat() }) }),
      fc.record({ case: fc.constant('complete' as const), value: fc.record({ summary: text }) }),
      fc.record({ case: fc.constant('error' as const), value: fc.record({ code: text, detail: text }) }),
    );
    const sent = fc.sample(fc.record({ proposalId: text, contextId: text, proposal }), 100);
    for (const one of sent) stream.sendBytes(toBinary(CognitionProposalSchema, create(CognitionProposalSchema, one)));
    const last = newId();
    stream.send({ proposalId: 'last', contextId: last, proposal: { case: 'complete', value: {} } });
    await eventually(() => stream.eventsOf('graphStateUpdate').some(({ proposalId }) => proposalId === 'last'));
    expect(edge.connected()).toBe(true);
    expect(there.streams).toHaveLength(1);
    for (const { proposalId } of stream.eventsOf('graphStateUpdate')) expect(proposalId.length).toBeLessThanOrEqual(64);
    expect(Object.prototype).not.toHaveProperty('action');
  });
});

import type { JsonObject } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { NodeState } from '#proto/cognition/v1/runtime_pb.js';
import { newId } from '../../../src/main/ids.ts';
import { eventually } from '../../support/clock.ts';
import type { Proposal, SidecarStream } from '../../support/sidecar.ts';
import { type EdgeHarness, service } from './edge-harness.ts';

const refusals = (stream: SidecarStream) =>
  stream.eventsOf('graphStateUpdate').filter(({ to }) => to === NodeState.REJECTED);
const off = (deviceId: string, nodeId = 'off'): Proposal => ({
  case: 'graphNode',
  value: { node: { nodeId, deviceId, action: 'turn_off' } },
});

/** A goal for a home with a lamp, and a sidecar that has received it. */
async function goal(given: Parameters<typeof service>[0] = {}) {
  const there = await service(given);
  const lamp = there.device();
  const { id } = there.cognition.open({ id: newId(), tenantId: there.tenantId, homeId: there.homeId });
  const sidecar = await there.sidecar();
  const stream = await sidecar.waitForStream();
  await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
  return { ...there, lamp, id, sidecar, stream };
}
const words = ({ cognition }: Pick<EdgeHarness, 'cognition'>) =>
  cognition.calls.map(({ word, sent }) => ({ word, sent: sent }));

describe('messages of a sidecar', () => {
  it('add a node as a step, and its first event names the proposal', async () => {
    const { stream, cognition, id, lamp } = await goal();
    stream.send({
      proposalId: 'p-1',
      contextId: id,
      proposal: {
        case: 'graphNode',
        value: {
          node: {
            ...{ nodeId: 'dim', deviceId: lamp.id, action: 'set_brightness', params: { level: 10 } },
            ...{ dependsOn: ['off'], compensation: { action: 'set_brightness', params: { level: 90 } }, timeoutS: 20 },
          },
        },
      },
    });
    await eventually(() => stream.eventsOf('graphStateUpdate').length === 1);
    expect(words({ cognition })).toEqual([
      {
        word: 'propose',
        sent: {
          ...{ id: 'dim', device_id: lamp.id, action: 'set_brightness', params: { level: 10 }, depends_on: ['off'] },
          ...{ compensation: { action: 'set_brightness', params: { level: 90 } }, timeout_s: 20 },
        },
      },
    ]);
    expect(stream.eventsOf('graphStateUpdate')).toMatchObject([
      { contextId: id, nodeId: 'dim', from: NodeState.UNSPECIFIED, to: NodeState.PENDING, proposalId: 'p-1' },
    ]);
  });

  it('repeat a node, and are answered with its status', async () => {
    const { stream, cognition, id, lamp } = await goal();
    stream.send({ proposalId: 'p-1', contextId: id, proposal: off(lamp.id) });
    await eventually(() => stream.eventsOf('graphStateUpdate').length === 1);
    cognition.setNodeStatus(id, 'off', 'running');
    stream.send({ proposalId: 'p-2', contextId: id, proposal: off(lamp.id) });
    await eventually(() => stream.eventsOf('graphStateUpdate').length === 3);
    expect(stream.eventsOf('graphStateUpdate').map(({ to, proposalId }) => [to, proposalId])).toEqual([
      [NodeState.PENDING, 'p-1'],
      [NodeState.RUNNING, ''],
      [NodeState.RUNNING, 'p-2'],
    ]);
  });

  it('propose a node for an observation to people, and run nothing', async () => {
    const { stream, cognition, lamp, tenantId, homeId } = await goal();
    const { id } = cognition.open({
      id: newId(),
      tenantId,
      homeId,
      kind: 'observation',
      text: null,
      data: { smoke: 9 },
    });
    stream.send({ proposalId: 'p-1', contextId: id, proposal: off(lamp.id) });
    await eventually(() => stream.eventsOf('graphStateUpdate').length === 1);
    expect(stream.eventsOf('graphStateUpdate')).toMatchObject([
      { contextId: id, to: NodeState.PROPOSED, proposalId: 'p-1' },
    ]);
  });

  it('suspend, complete and fail contexts with their reason', async () => {
    const { stream, cognition, id, tenantId, homeId } = await goal();
    const other = cognition.open({ id: newId(), tenantId, homeId }).id;
    stream.send({ contextId: id, proposal: { case: 'suspend', value: { reason: 'the heating is slow', forS: 600 } } });
    stream.send({ contextId: id, proposal: { case: 'suspend', value: { reason: 'still' } } });
    stream.send({
      contextId: id,
      proposal: { case: 'complete', value: { summary: 'warm', finalState: { celsius: 21 } } },
    });
    stream.send({ contextId: other, proposal: { case: 'error', value: { code: 'NOT_UNDERSTOOD', detail: 'What?' } } });
    await eventually(() => cognition.calls.length === 4);
    expect(cognition.calls.filter(({ contextId }) => contextId === id)).toMatchObject([
      { word: 'suspend', sent: { reason: 'the heating is slow', forS: 600 } },
      { word: 'suspend', sent: { reason: 'still', forS: null } },
      { word: 'complete', sent: { summary: 'warm', finalState: { celsius: 21 } } },
    ]);
    expect(cognition.calls.filter(({ contextId }) => contextId === other)).toMatchObject([
      { word: 'fail', sent: { code: 'NOT_UNDERSTOOD', detail: 'What?' } },
    ]);
    expect(refusals(stream)).toEqual([]);
  });

  it('about one context are processed in order, for any duration of each', async () => {
    const { stream, cognition, id, lamp, counts } = await goal();
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    cognition.beforeAnswer = () => held;
    for (const nodeId of ['a', 'b', 'c']) stream.send({ contextId: id, proposal: off(lamp.id, nodeId) });
    stream.send({ contextId: id, proposal: { case: 'complete', value: { summary: 'done' } } });
    await eventually(() => counts.get('heard complete') === 1);
    expect(cognition.calls).toHaveLength(1);
    release();
    await eventually(() => cognition.calls.length === 4);
    expect(cognition.calls.map(({ word, sent }) => [word, (sent as { id?: string }).id])).toEqual([
      ['propose', 'a'],
      ['propose', 'b'],
      ['propose', 'c'],
      ['complete', undefined],
    ]);
    expect(refusals(stream)).toEqual([]);
  });

  it('about an unknown or ended context are answered with their codes', async () => {
    const { stream, id, lamp, counts } = await goal();
    const unknown = newId();
    stream.send({ proposalId: 'p-1', contextId: unknown, proposal: off(lamp.id) });
    stream.send({ proposalId: 'p-2', contextId: 'no uuid', proposal: off(lamp.id) });
    stream.send({ proposalId: 'p-3', contextId: id, proposal: { case: 'complete', value: {} } });
    stream.send({ proposalId: 'p-4', contextId: id, proposal: off(lamp.id) });
    stream.send({ proposalId: 'p-5', contextId: id, proposal: { case: 'complete', value: {} } });
    await eventually(() => refusals(stream).length === 4);
    const notified = new Map(refusals(stream).map((one) => [one.proposalId, one]));
    expect(notified.get('p-1')).toMatchObject({ contextId: unknown, nodeId: 'off', code: 'NOT_FOUND' });
    expect(notified.get('p-2')).toMatchObject({ contextId: '', nodeId: 'off', code: 'NOT_FOUND' });
    expect(notified.get('p-4')).toMatchObject({ contextId: id, nodeId: 'off', code: 'CONFLICT' });
    expect(notified.get('p-5')).toMatchObject({ contextId: id, nodeId: '', code: 'CONFLICT' });
    expect(counts.get('refused NOT_FOUND')).toBe(2);
  });

  it('that fail with an internal error are answered without its reason', async () => {
    const { stream, cognition, id, lamp, edge } = await goal();
    let failing = true;
    cognition.beforeAnswer = () => {
      if (!failing) return;
      failing = false;
      throw new Error('password in the message');
    };
    stream.send({ proposalId: 'p-1', contextId: id, proposal: off(lamp.id) });
    await eventually(() => refusals(stream).length === 1);
    expect(refusals(stream)).toMatchObject([{ proposalId: 'p-1', code: 'INTERNAL' }]);
    expect(refusals(stream)[0]?.detail).not.toContain('password');
    expect(edge.connected()).toBe(true);
  });

  it.each<[string, Proposal | undefined, RegExp]>([
    ['a proposal that proposes nothing', undefined, /empty or of an unknown kind/],
    ['a node proposal without a node', { case: 'graphNode', value: {} }, /no node/],
    ['U+0000 in a node id', { case: 'graphNode', value: { node: { nodeId: 'a\0b' } } }, /U\+0000/],
    ['U+0000 in a key of params', { case: 'graphNode', value: { node: { params: { 'a\0': 1 } } } }, /U\+0000/],
    ['NaN in params', { case: 'graphNode', value: { node: { params: { level: Number.NaN } } } }, /out of range/],
    ['nesting over 32 levels', { case: 'graphNode', value: { node: { params: nested(33) } } }, /nested/],
    ['a reason that is a book', { case: 'suspend', value: { reason: 'x'.repeat(1_001) } }, /reason/],
    ['a wait of weeks', { case: 'suspend', value: { forS: 4_000_000_000 } }, /forS: must be at most 3600/],
    ['a summary that is a book', { case: 'complete', value: { summary: 'x'.repeat(1_001) } }, /summary/],
    ['U+0000 in a final state', { case: 'complete', value: { finalState: { a: ['\0'] } } }, /U\+0000/],
    ['a code that is text', { case: 'error', value: { code: 'it broke', detail: '' } }, /code/],
    ['no code', { case: 'error', value: { detail: 'hm' } }, /code/],
    ['a detail that is a book', { case: 'error', value: { code: 'X', detail: 'x'.repeat(1_001) } }, /detail/],
  ])('with %s are refused without effects', async (_, proposal, detail) => {
    const { stream, cognition, id } = await goal();
    stream.send({ proposalId: 'p-1', contextId: id, proposal });
    await eventually(() => refusals(stream).length === 1);
    expect(refusals(stream)).toMatchObject([{ contextId: id, proposalId: 'p-1', code: 'VALIDATION_FAILED' }]);
    expect(refusals(stream)[0]?.detail).toMatch(detail);
    expect(cognition.calls).toEqual([]);
  });

  it('that cannot be attributed get no answer', async () => {
    const { stream, id } = await goal();
    stream.send({ proposalId: 'p'.repeat(65), contextId: id, proposal: off(newId(), 'n'.repeat(65)) });
    stream.send({ proposalId: 'a\nb', contextId: `${id}${'x'.repeat(100_000)}`, proposal: off(newId(), 'a\u0007') });
    await eventually(() => refusals(stream).length === 2);
    expect(refusals(stream)).toMatchObject([
      { contextId: id, proposalId: '', nodeId: '' },
      { contextId: '', proposalId: '', nodeId: '' },
    ]);
  });
});

function nested(levels: number): JsonObject {
  let value: JsonObject = { a: {} };
  for (let level = 2; level < levels; level++) value = { a: value };
  return value;
}

import { describe, expect, it } from 'vitest';
import { ContextKind, ContextPhase, InterruptReason, NodeState } from '#proto/cognition/v1/runtime_pb.js';
import { newId } from '../../../src/main/ids.ts';
import { eventually } from '../../support/clock.ts';
import { slow } from '../../support/slow.ts';
import { service } from './edge-harness.ts';

const cases = (stream: { events: { event: { case?: string | undefined } }[] }) =>
  stream.events.map(({ event }) => event.case);

describe('the event sender', () => {
  it('starts with the capabilities of devices, and numbers its events from 1', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service();
    device();
    cognition.open({ id: newId(), tenantId, homeId });
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.events.length >= 2);
    expect(cases(stream)).toEqual(['capabilitySync', 'perceptionUpdate']);
    expect(stream.events.map(({ eventId }) => eventId)).toEqual([1n, 2n]);
    const [sync] = stream.eventsOf('capabilitySync');
    const light = sync?.sets.find(({ category }) => category === 'light');
    expect(light?.tools.map(({ action }) => action)).toContain('turn_on');
    expect(light?.tools.map(({ action }) => action)).not.toContain('rotate_key');
  });

  it('sends waiting contexts with their world', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service();
    const lamp = device({ state: { on: true }, room: { id: newId(), name: 'Hall' } });
    const elsewhere = device({ homeId: newId() });
    const foreign = device({ tenantId: newId() });
    const { id } = cognition.open({ id: newId(), tenantId, homeId, text: 'good night' });
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    const [shown] = stream.eventsOf('perceptionUpdate');
    expect(shown).toMatchObject({ tenantId, homeId, deviceId: '', devicesLeftOut: 0, contextsLeftOut: 0 });
    expect(shown?.worldStateHash).toMatch(/^[0-9a-f]{64}$/);
    expect(shown?.activeContexts).toMatchObject([
      { contextId: id, kind: ContextKind.GOAL, text: 'good night', phase: ContextPhase.THINKING, nodes: [] },
    ]);
    expect(shown?.devices).toMatchObject([{ deviceId: lamp.id, state: { on: true }, roomName: 'Hall', online: true }]);
    const notified = JSON.stringify(shown, (_, value) => (typeof value === 'bigint' ? `${value}` : value));
    expect(notified).not.toContain(elsewhere.id);
    expect(notified).not.toContain(foreign.id);
    const sets = stream
      .eventsOf('capabilitySync')
      .flatMap((sync) => sync.sets.map(({ capabilitySetId }) => capabilitySetId));
    expect(sets).toContain(shown?.devices[0]?.capabilitySetId);
  });

  it('sends a tenant’s manifest before the device that has it', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service();
    const { manifest } = device();
    const own = structuredClone(manifest);
    if (own === null) throw new Error('a light has a manifest');
    own.capabilities = own.capabilities.slice(0, 1).map((one) => ({ ...one, action: 'sing.loudly' }));
    const singer = device({ manifest: { ...own, own: true } });
    cognition.open({ id: newId(), tenantId, homeId });
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    expect(cases(stream)).toEqual(['capabilitySync', 'capabilitySync', 'perceptionUpdate']);
    const set = stream.eventsOf('capabilitySync')[1]?.sets[0];
    const [shown] = stream.eventsOf('perceptionUpdate');
    expect(shown?.devices.find(({ deviceId }) => deviceId === singer.id)?.capabilitySetId).toBe(set?.capabilitySetId);
    expect(set?.tools[0]).toMatchObject({
      action: 'sing.loudly',
      definition: { type: 'function', function: { name: expect.stringMatching(/^sing_loudly_[0-9a-f]{8}$/) } },
    });
  });

  it('sends a new context at once, and a changed world at most once per interval', async () => {
    const { sidecar, cognition, device, report, tenantId, homeId } = await service({ coalesceMs: 200 });
    const lamp = device();
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.events.length > 0);
    const from = performance.now();
    cognition.open({ id: newId(), tenantId, homeId });
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    let level = 0;
    await eventually(() => {
      for (let n = 0; n < 10; n++) report(lamp, { level: ++level });
      return stream.eventsOf('perceptionUpdate').length >= 3;
    });
    const notified = stream.eventsOf('perceptionUpdate').length;
    expect(performance.now() - from).toBeGreaterThan((notified - 1) * 200);
    await eventually(() => stream.eventsOf('perceptionUpdate').at(-1)?.devices[0]?.state?.level === level);
  });

  it('sends an update for a home that a device left', async () => {
    const { sidecar, cognition, device, place, tenantId, homeId } = await service();
    const lamp = device();
    cognition.open({ id: newId(), tenantId, homeId });
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    place(lamp, null);
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 2);
    expect(stream.eventsOf('perceptionUpdate')[1]?.devices).toEqual([]);
  });

  it('reads a slow world no more often than its interval allows', slow, async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service();
    device();
    const { world } = cognition;
    const readings: { from: number; took: number }[] = [];
    cognition.world = async (requested) => {
      const from = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 50));
      readings.push({ from, took: performance.now() - from });
      return world.call(cognition, requested);
    };
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => {
      cognition.open({ id: newId(), tenantId, homeId });
      return stream.eventsOf('perceptionUpdate').length >= 5;
    });
    readings.reduce((before, next) => {
      expect(next.from - before.from).toBeGreaterThan(2.5 * before.took);
      return next;
    });
  });

  it('sends nothing for a report that changes nothing', async () => {
    const { sidecar, cognition, device, report, tenantId, homeId } = await service();
    const lamp = device({ state: { on: true } });
    cognition.open({ id: newId(), tenantId, homeId });
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    const { worldReads } = cognition;
    report(lamp, { on: true });
    await eventually(() => cognition.worldReads > worldReads);
    cognition.interrupt([...cognition.contexts.keys()][0] as string, 'CANCELLED');
    await eventually(() => stream.eventsOf('interruptSignal').length === 1);
    expect(stream.eventsOf('perceptionUpdate')).toHaveLength(1);
  });

  it('does not send a home as idle that has a context by then', async () => {
    const { sidecar, cognition, device, report, tenantId, homeId } = await service({ idleHomeIntervalMs: 200 });
    const [lamp, elsewhere] = [device(), device({ homeId: newId() })];
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.events.length > 0);
    report(lamp, { on: true });
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    report(lamp, { on: false });
    report(elsewhere, { on: false });
    cognition.open({ id: newId(), tenantId, homeId });
    await eventually(() => stream.eventsOf('perceptionUpdate').some((shown) => shown.homeId === elsewhere.homeId));
    const notified = stream.eventsOf('perceptionUpdate').filter((shown) => shown.homeId === homeId);
    expect(notified.map(({ activeContexts }) => activeContexts.length)).toEqual([0, 1]);
  });

  it('sends only the hash of a home without contexts', async () => {
    const { sidecar, device, report, homeId } = await service();
    const lamp = device();
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.events.length > 0);
    report(lamp, { on: true });
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    report(lamp, { on: false });
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 2);
    const notified = stream.eventsOf('perceptionUpdate');
    expect(notified).toMatchObject([
      { homeId, devices: [], activeContexts: [], memories: [] },
      { homeId, devices: [], activeContexts: [], memories: [] },
    ]);
    expect(notified[0]?.worldStateHash).not.toBe(notified[1]?.worldStateHash);
  });

  it('sends results of nodes, of commands with the state of their device, and interruptions', async () => {
    const { sidecar, cognition, edge, device, tenantId, homeId } = await service();
    const lamp = device({ state: { on: false } });
    const commandId = newId();
    const node = { id: 'off', deviceId: lamp.id, action: 'turn_off', params: {}, dependsOn: [], compensation: null };
    const { id } = cognition.open({
      ...{ id: newId(), tenantId, homeId },
      nodes: [{ ...node, timeoutS: null, status: 'running', commandId, error: null }],
    });
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    expect(stream.eventsOf('perceptionUpdate')[0]?.activeContexts[0]?.nodes).toMatchObject([
      { node: { nodeId: 'off', action: 'turn_off' }, state: NodeState.RUNNING, commandId },
    ]);
    edge.notify({
      ...{
        type: 'outcome',
        contextId: id,
        tenantId,
        homeId,
        at: Date.now(),
        nodeId: 'off',
        deviceId: lamp.id,
        commandId,
      },
      ...{ compensation: false, success: true, status: 'succeeded', verification: 'verified', code: null },
    });
    cognition.setNodeStatus(id, 'off', 'succeeded');
    cognition.interrupt(id, 'CANCELLED', 'Somebody cancelled it.');
    await eventually(() => stream.eventsOf('interruptSignal').length === 1);
    expect(stream.eventsOf('observationOutcome')).toMatchObject([
      { contextId: id, nodeId: 'off', commandId, success: true, verification: 'verified', deviceState: { on: false } },
    ]);
    expect(stream.eventsOf('graphStateUpdate')).toMatchObject([
      { contextId: id, nodeId: 'off', from: NodeState.RUNNING, to: NodeState.SUCCEEDED },
    ]);
    expect(stream.eventsOf('interruptSignal')).toMatchObject([
      { contextId: id, reason: InterruptReason.CANCELLED, detail: 'Somebody cancelled it.' },
    ]);
  });

  it('sends everything that a reconnecting sidecar needs', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service();
    const lamp = device({ state: { on: true } });
    const { id } = cognition.open({ id: newId(), tenantId, homeId });
    const first = await sidecar();
    const before = await first.waitForStream();
    await eventually(() => before.eventsOf('perceptionUpdate').length === 1);
    before.send({
      contextId: id,
      proposal: { case: 'graphNode', value: { node: { nodeId: 'off', deviceId: lamp.id, action: 'turn_off' } } },
    });
    await eventually(() => before.eventsOf('graphStateUpdate').length === 1);
    first.kill();
    cognition.setNodeStatus(id, 'off', 'succeeded');
    const later = cognition.open({ id: newId(), tenantId, homeId });
    const after = await (await sidecar()).waitForStream();
    await eventually(() => after.eventsOf('perceptionUpdate').length === 1);
    expect(cases(after)).toEqual(['capabilitySync', 'perceptionUpdate']);
    expect(after.events[0]?.eventId).toBe(1n);
    expect(after.eventsOf('perceptionUpdate')[0]?.activeContexts).toMatchObject([
      { contextId: id, nodes: [{ node: { nodeId: 'off', deviceId: lamp.id }, state: NodeState.SUCCEEDED }] },
      { contextId: later.id, nodes: [] },
    ]);
  });

  it('sends as many contexts as fit, and the others when those have ended', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service({ maxContextsPerUpdate: 2 });
    device();
    const ids = [newId(), newId(), newId()].map((id) => cognition.open({ id, tenantId, homeId }).id);
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    const shown = () =>
      stream
        .eventsOf('perceptionUpdate')
        .at(-1)
        ?.activeContexts.map(({ contextId }) => contextId);
    expect(shown()).toEqual(ids.slice(0, 2));
    expect(stream.eventsOf('perceptionUpdate')[0]?.contextsLeftOut).toBe(1);
    cognition.interrupt(ids[0] as string, 'CANCELLED');
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 2);
    expect(shown()).toEqual(ids.slice(1));
  });

  it('sends the others also when the sidecar ends one', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service({ maxContextsPerUpdate: 2, maxContexts: 3 });
    device();
    const ids = [1, 2, 3, 4].map(() => cognition.open({ id: newId(), tenantId, homeId }).id);
    const stream = await (await sidecar()).waitForStream();
    const shown = () =>
      stream
        .eventsOf('perceptionUpdate')
        .at(-1)
        ?.activeContexts.map(({ contextId }) => contextId);
    const complete = (contextId?: string) =>
      stream.send({ contextId: contextId as string, proposal: { case: 'complete', value: { summary: 'Done.' } } });
    await eventually(() => shown()?.length === 2);
    complete(ids[0]);
    await eventually(() => shown()?.includes(ids[2] as string));
    complete(ids[1]);
    await eventually(() => shown()?.includes(ids[3] as string));
  });

  it('sends the others when one ends while its world is read', async () => {
    const { sidecar, cognition, device, report, tenantId, homeId } = await service({ maxContextsPerUpdate: 2 });
    const lamp = device();
    const ids = [1, 2, 3].map(() => cognition.open({ id: newId(), tenantId, homeId }).id);
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    const { world } = cognition;
    cognition.world = async (requested) => {
      cognition.world = world;
      cognition.interrupt(ids[0] as string, 'CANCELLED');
      return world.call(cognition, requested);
    };
    report(lamp, { on: true });
    await eventually(() =>
      stream
        .eventsOf('perceptionUpdate')
        .at(-1)
        ?.activeContexts.some(({ contextId }) => contextId === ids[2]),
    );
  });

  it('tracks no more contexts than its limit, and looks for others when some have ended', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service({ maxContexts: 2 });
    device();
    const early = [newId(), newId(), newId()].map((id) => cognition.open({ id, tenantId, homeId }).id);
    const stream = await (await sidecar()).waitForStream();
    const shown = () =>
      stream
        .eventsOf('perceptionUpdate')
        .at(-1)
        ?.activeContexts.map(({ contextId }) => contextId);
    await eventually(() => shown()?.length === 2);
    const late = cognition.open({ id: newId(), tenantId, homeId }).id;
    expect(shown()).toEqual(early.slice(0, 2));
    cognition.interrupt(early[0] as string, 'CANCELLED');
    await eventually(() => shown()?.includes(early[2] as string));
    for (const id of early.slice(1)) cognition.interrupt(id, 'CANCELLED');
    await eventually(() => shown()?.includes(late));
  });

  it('serves tenants in turn, for any load of one of them', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service();
    device();
    for (let count = 0; count < 50; count++) cognition.open({ id: newId(), tenantId, homeId: newId() });
    const other = newId();
    const { id } = cognition.open({ id: newId(), tenantId: other, homeId });
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 51);
    const tenants = stream.eventsOf('perceptionUpdate').map((one) => one.tenantId);
    expect(tenants.indexOf(other)).toBe(1);
    expect(stream.eventsOf('perceptionUpdate')[1]?.activeContexts).toMatchObject([{ contextId: id }]);
  });

  it('sends everything else while one item cannot be read', async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service();
    device();
    const poison = cognition.open({ id: newId(), tenantId, homeId: newId() });
    const { world } = cognition;
    cognition.world = (requested) => {
      if (requested.homeId === poison.homeId) throw new Error('it never can');
      return world.call(cognition, requested);
    };
    const { id } = cognition.open({ id: newId(), tenantId, homeId });
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
    expect(stream.eventsOf('perceptionUpdate')[0]?.activeContexts).toMatchObject([{ contextId: id }]);
    cognition.interrupt(id, 'CANCELLED');
    await eventually(() => stream.eventsOf('interruptSignal').length === 1);
  });

  it('continues when reading an item failed', slow, async () => {
    const { sidecar, cognition, device, tenantId, homeId } = await service();
    device();
    cognition.open({ id: newId(), tenantId, homeId });
    let failures = 2;
    cognition.beforeAnswer = () => {
      failures -= 1;
      if (failures >= 0) throw new Error('the store is away');
    };
    const stream = await (await sidecar()).waitForStream();
    await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
  });
});

import { Client, credentials, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import type { Log } from '../../sidecar/log.ts';
import type { Planner } from '../../sidecar/planner-types.ts';
import { rulesPlanner } from '../../sidecar/rules/planner.ts';
import { type RunningServer, serve } from '../../sidecar/server.ts';
import { ContextKind, ContextPhase, capabilities, dial, type FakeService, goal, NodeState } from './fake-service.ts';

const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} };
let server: RunningServer;
const services: FakeService[] = [];

async function stand(planner: Planner = rulesPlanner) {
  server = await serve('127.0.0.1:0', { planner, log: quiet });
  return again();
}

function again(): FakeService {
  const service = dial(`127.0.0.1:${server.port}`);
  services.push(service);
  service.send(capabilities());
  return service;
}

afterEach(async () => {
  for (const service of services.splice(0)) service.hangUp();
  await server.close();
});

const words = (service: FakeService, count: number, context = 'c') =>
  service.until(() => {
    const sent = service.words(context);
    return sent.length >= count && sent;
  });

describe('the stream of the reference sidecar', () => {
  it('turns a goal into nodes, waits for them, and completes with the result', async () => {
    const service = await stand();
    service.sendPerception([goal('c', 'turn off the lights; then lock the front door')]);
    expect(await words(service, 4)).toEqual([
      'node ceiling-light-turn-off',
      'node bed-light-turn-off',
      'node front-door-lock',
      'suspend 900: Waiting for 3 steps.',
    ]);
    const lock = service.received[2]?.proposal;
    expect(lock?.case === 'graphNode' && lock.value.node?.dependsOn).toEqual([
      'ceiling-light-turn-off',
      'bed-light-turn-off',
    ]);
    const first = service.received[0]?.proposal;
    expect(first?.case === 'graphNode' && first.value.node?.compensation?.action).toBe('turn_on');
    for (const id of ['ceiling-light-turn-off', 'bed-light-turn-off', 'front-door-lock']) {
      service.move('c', id, NodeState.PENDING);
      service.move('c', id, NodeState.RUNNING);
    }
    const lamp = { contextId: 'c', nodeId: 'bed-light-turn-off', commandId: 'x', success: true, status: 'succeeded' };
    service.send({
      case: 'observationOutcome',
      value: { ...lamp, verification: 'verified', deviceState: { on: false } },
    });
    for (const id of ['ceiling-light-turn-off', 'bed-light-turn-off']) service.move('c', id, NodeState.SUCCEEDED);
    service.move('c', 'front-door-lock', NodeState.SUCCEEDED);
    const sent = await words(service, 5);
    expect(sent[4]).toBe(
      'complete: 3 of 3 steps done (Ceiling light: turn_off, Bed light: turn_off, Front door: lock).',
    );
    const last = service.received[4]?.proposal;
    expect(last?.case === 'complete' && last.value.finalState).toMatchObject({
      devices: { 'id-of-Bed light': { on: false } },
    });
    expect(new Set(service.received.map(({ proposalId }) => proposalId)).size).toBe(5);
  });

  it('continues in another stream from the received context, and repeats steps that were not accepted', async () => {
    const before = await stand();
    before.sendPerception([goal('c', 'turn off the lights')]);
    const proposed = (await words(before, 3))[0];
    expect(proposed).toBe('node ceiling-light-turn-off');
    before.hangUp();
    const service = again();
    const node = { nodeId: 'ceiling-light-turn-off', deviceId: 'id-of-Ceiling light', action: 'turn_off' };
    service.sendPerception([goal('c', 'turn off the lights', { nodes: [{ node, state: NodeState.SUCCEEDED }] })]);
    expect(await words(service, 2)).toEqual(['node bed-light-turn-off', 'suspend 900: Waiting for 1 step.']);
    service.move('c', 'bed-light-turn-off', NodeState.SUCCEEDED);
    expect((await words(service, 3))[2]).toMatch(/^complete: 2 of 2 steps done/);
  });

  it('keeps waiting when only some steps are done, and reports nothing about failed steps', async () => {
    const service = await stand();
    const node = { nodeId: 'front-door-unlock', deviceId: 'id-of-Front door', action: 'unlock' };
    service.sendPerception([
      goal('c', 'unlock the front door', { nodes: [{ node, state: NodeState.AWAITING_CONFIRMATION }] }),
      goal('d', 'unlock the front door', { nodes: [{ node, state: NodeState.FAILED, code: 'DEVICE_REVOKED' }] }),
      goal('e', 'nonsense'),
    ]);
    await words(service, 1, 'e');
    expect(service.words('c')).toEqual(['suspend 900: Still waiting.']);
    expect(service.words('d')).toEqual([]);
  });

  it('reports why it gives up: an unknown sentence, or a refusal of the service', async () => {
    const service = await stand();
    service.sendPerception([goal('c', 'sing'), goal('d', 'lights off')]);
    expect(await words(service, 1)).toEqual(['error GOAL_NOT_UNDERSTOOD: The rules do not understand "sing".']);
    await words(service, 3, 'd');
    service.move('d', 'ceiling-light-turn-off', NodeState.PENDING);
    service.move('d', 'bed-light-turn-off', NodeState.REJECTED, { code: 'DEVICE_REVOKED', detail: 'It is revoked.' });
    service.move('d', 'ceiling-light-turn-off', NodeState.SUCCEEDED);
    expect((await words(service, 4, 'd'))[3]).toBe(
      'error DEVICE_REVOKED: The step turn_off was refused: It is revoked.',
    );
  });

  it('completes an observation when each of its steps was accepted', async () => {
    const service = await stand();
    const observation = {
      ...{ contextId: 'c', kind: ContextKind.OBSERVATION, phase: ContextPhase.THINKING, deviceId: 'id-of-Bed light' },
      data: { water_leak: true },
    };
    service.sendPerception([observation, { ...observation, contextId: 'd', data: { temperature: 20 } }]);
    expect(await words(service, 1, 'd')).toEqual(['complete: No measurement requires an action.']);
    expect(service.words('c')).toEqual(['node main-valve-close-valve']);
    service.move('c', 'main-valve-close-valve', NodeState.PROPOSED);
    expect(await words(service, 2)).toEqual(['node main-valve-close-valve', 'complete: Water is leaking.']);
  });

  it('stops planning when it is interrupted, and starts again when the context is opened again', async () => {
    const requested: AbortSignal[] = [];
    const answers: ((value: Awaited<ReturnType<Planner['decide']>>) => void)[] = [];
    const slow: Planner = {
      name: 'slow',
      timeoutS: 120,
      decide: (_view, signal) => {
        requested.push(signal);
        return new Promise((resolve) => answers.push(resolve));
      },
    };
    const service = await stand(slow);
    service.sendPerception([goal('c', 'anything')]);
    expect(await words(service, 1)).toEqual(['suspend 120: Planning with the slow.']);
    service.send({ case: 'interruptSignal', value: { contextId: 'c', reason: 2 } });
    service.sendPerception([goal('c', 'anything')]);
    await words(service, 2);
    expect(requested.map(({ aborted }) => aborted)).toEqual([true, false]);
    answers[0]?.({ done: 'too late', finalState: {} });
    answers[1]?.({ done: 'in time', finalState: {} });
    expect((await words(service, 3))[2]).toBe('complete: in time');
    // A context that is missing in an update has ended.
    service.sendPerception([goal('d', 'something else')]);
    await words(service, 1, 'd');
    service.sendPerception([]);
    service.sendPerception([goal('e', 'another')], { homeId: 'another' });
    await words(service, 1, 'e');
    expect(requested[2]?.aborted).toBe(true);
  });

  it('survives a planner that throws, and unknown events', async () => {
    const service = await stand({ name: 'broken', timeoutS: 0, decide: () => Promise.reject(new Error('oh')) });
    service.send({ case: undefined });
    service.move('nobody', 'nothing', NodeState.RUNNING);
    service.send({ case: 'interruptSignal', value: { contextId: 'nobody' } });
    service.sendPerception([goal('x', 'of a kind to come', { kind: 99 as ContextKind }), goal('c', 'anything')]);
    expect(await words(service, 1)).toEqual(['error INTERNAL: The planner failed.']);
    expect(service.words('x')).toEqual([]);
  });

  it('ends a stream that would exhaust its memory, and limits the number of streams', async () => {
    const service = await stand();
    const sets = Array.from({ length: 2_001 }, (_, n) => ({ capabilitySetId: `${n}`, tools: [] }));
    service.send({ case: 'capabilitySync', value: { sets } });
    expect(await service.over).toBe('too many manifests');
    const more = Array.from({ length: 8 }, () => again());
    for (const [n, one] of more.entries()) {
      one.sendPerception([goal(`c${n}`, 'sing')]);
      await words(one, 1, `c${n}`);
    }
    expect(await again().over).toBe('too many streams');
  });

  it('answers health checks', async () => {
    await stand();
    const client = new Client(`127.0.0.1:${server.port}`, credentials.createInsecure());
    const check = (name: string) =>
      new Promise((resolve) => {
        const request = Buffer.from([0x0a, name.length, ...Buffer.from(name)]);
        const bytes = (buffer: Buffer) => buffer;
        client.makeUnaryRequest('/grpc.health.v1.Health/Check', bytes, bytes, request, (error, answer) =>
          resolve(error ? error.code : [...(answer ?? [])]),
        );
      });
    expect(await check('')).toEqual([0x08, 1]);
    expect(await check('cognition.v1.CognitionRuntime')).toEqual([0x08, 1]);
    expect(await check('another')).toBe(status.NOT_FOUND);
    client.close();
  });

  it('repeats a completion that was refused, but not forever', async () => {
    const service = await stand();
    for (const count of [1, 2, 3]) {
      service.sendPerception([goal('c', 'sing')]);
      await words(service, count);
      service.move('c', '', NodeState.REJECTED, { code: 'CONFLICT' });
    }
    service.sendPerception([goal('c', 'sing')]);
    service.sendPerception([goal('c', 'sing'), goal('d', 'sing')]);
    await words(service, 1, 'd');
    expect(service.words('c')).toHaveLength(3);
  });
});

import { spawn } from 'node:child_process';
import { create, type MessageInitShape, toJson } from '@bufbuild/protobuf';
import { describe, expect, it, onTestFinished } from 'vitest';
import { RuntimeEventSchema } from '#proto/cognition/v1/runtime_pb.js';
import { automaticManifest } from '../../src/domain/capability-registry.ts';
import { registryCapabilitySets } from '../../src/edges/grpc/capability-sets.ts';
import { buildPerceptionUpdate } from '../../src/edges/grpc/perception.ts';
import { newId } from '../../src/main/ids.ts';
import { SidecarChild } from '../../src/main/sidecar-child.ts';
import type { ActiveContext, WorldDevice } from '../../src/operations/cognition/contract.ts';
import { eventually } from '../support/clock.ts';
import { silentLog } from '../support/service.ts';

const root = new URL('../../', import.meta.url).pathname;

/** `buf curl` as the service would call a sidecar: it knows only the `.proto`, and writes and reads JSON. */
function curl(address: string, token: string) {
  const url = `http://${address}/cognition.v1.CognitionRuntime/Orchestrate`;
  const header = `authorization: Bearer ${token}`;
  const wire = ['--schema', 'proto', '--protocol', 'grpc', '--http2-prior-knowledge'];
  const args = ['curl', ...wire, '--header', header, '-d', '@-', url];
  const child = spawn(`${root}node_modules/.bin/buf`, args, { cwd: root, stdio: ['pipe', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const sent = { out: '', err: '', code: null as number | null };
  child.stdout.on('data', (text) => (sent.out += text));
  child.stderr.on('data', (text) => (sent.err += text));
  child.on('close', (code) => (sent.code = code));
  return {
    sent,
    send(event: MessageInitShape<typeof RuntimeEventSchema>) {
      child.stdin.write(`${JSON.stringify(toJson(RuntimeEventSchema, create(RuntimeEventSchema, event)))}\n`);
    },
    end: () => child.stdin.end(),
  };
}

describe('a client that only uses the .proto', () => {
  it('sends the reference sidecar the messages of the service, and receives nodes', async () => {
    const sidecar = new SidecarChild({ listen: null, llm: null, log: silentLog, level: 'warn', onListening() {} });
    onTestFinished(() => sidecar.stop());
    const address = await eventually(() => sidecar.address());
    const [tenantId, homeId, id] = [newId(), newId(), newId()];
    const lamp: WorldDevice = {
      ...{
        id: newId(),
        name: 'Reading lamp',
        type: 'smart_light',
        category: 'light',
        homeId,
        room: null,
        online: true,
      },
      ...{ state: { on: true, brightness: 80 }, stateOutdated: false },
      manifest: automaticManifest({ deviceId: id, tenantId, deviceType: 'light' }),
    };
    const context: ActiveContext = {
      ...{ id, kind: 'goal', tenantId, homeId, deviceId: null, text: 'turn off the reading lamp', action: null },
      ...{ data: null, note: null, phase: 'thinking', createdAt: Date.now(), nodes: [] },
    };
    const world = { tenantId, homeId, devices: [lamp], hash: 'a'.repeat(64) };
    const client = curl(address, `${sidecar.token()}`);
    client.send({ eventId: 1n, event: { case: 'capabilitySync', value: { sets: registryCapabilitySets() } } });
    const shown = { tenantId, homeId, deviceId: null, world, contexts: [context], contextsNotRead: 0, memories: [] };
    client.send({ eventId: 2n, event: { case: 'perceptionUpdate', value: buildPerceptionUpdate(shown) } });
    await eventually(() => {
      if (client.sent.code !== null) throw new Error(client.sent.err);
      return client.sent.out.includes('"action"');
    });
    client.end();
    await eventually(() => client.sent.code === 0);
    const [first] = client.sent.out.split(/\n(?=\{)/).map((text) => JSON.parse(text));
    expect(first).toMatchObject({
      contextId: id,
      graphNode: { node: { deviceId: lamp.id, action: 'turn_off', compensation: { action: 'turn_on' } } },
    });
  });
});

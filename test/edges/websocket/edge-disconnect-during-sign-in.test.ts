import { setImmediate as nextPass } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { eventually } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { startTestSockets, type TestSockets } from '../../support/state-sockets.ts';

let service: HttpService;
let edge: TestSockets;
beforeEach(async () => {
  service = await startHttpService();
  edge = await startTestSockets(service);
});
afterEach(async () => {
  await edge.close();
  await service.close();
});

it('a client that disconnects during its sign-in is dropped, without subscriptions', async () => {
  const { token } = await service.owner();
  const { authenticate } = service.identity;
  const arrived = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  service.identity.authenticate = async (...requested) => {
    const answer = await authenticate.call(service.identity, ...requested);
    arrived.resolve();
    await held.promise;
    return answer;
  };
  for (const path of ['/ws/state', '/ws/actors']) {
    const client = await edge.connect(token, 'snapshot=1', path);
    await arrived.promise;
    client.socket.terminate();
  }
  await eventually(() => edge.sockets.counts().connections === 0);
  held.resolve();
  await nextPass();
  expect(edge.sockets.counts().conflating).toBe(0);
  expect(edge.edge.watching).toBe(0);
  expect(edge.store.reads).toBe(0);
});

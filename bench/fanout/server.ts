import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { v7 } from 'uuid';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Actors } from '../../src/actors/contract.ts';
import { systemClock } from '../../src/domain/clock.ts';
import { done } from '../../src/domain/refusals.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { ConnectionQuota } from '../../src/edges/shared/live/connection-quota.ts';
import { stateMessage } from '../../src/edges/shared/live/update-kinds.ts';
import { WebSocketEdge, type WebSocketParts } from '../../src/edges/websocket/edge.ts';
import { stateStream } from '../../src/edges/websocket/state-stream.ts';
import type { VolatileOutput } from '../../src/machines/outputs.ts';
import type { Caller } from '../../src/operations/operation.ts';
import { makeLocalInvalidationBus } from '../../src/services/invalidation-bus.ts';
import { deviceState } from '../support/device-state.ts';

/*
 * One side of the comparison, selected by the argument: `ours` is the service's WebSocket edge with an identity that
 * accepts all clients; the others are a loop of `ws.send` over the clients that serialises an update per client or
 * once.
 */
export type ServerKind = 'ours' | 'text for each client' | 'text once';

/** Updates due at `perSecond`, created in this process, so that creating them costs all sides the same. */
export interface Run {
  perSecond: number;
  milliseconds: number;
  /** Maximum lateness of the last update; a later run is aborted. */
  graceMs: number;
}

export interface RunResult {
  sent: number;
  /** Deadline by the clock that both processes read; null for an aborted run. */
  until: number | null;
}

type StateOutput = Extract<VolatileOutput, { type: 'device.state' }>;
type Emit = (output: StateOutput) => void;

const TENANT = v7();
const DEVICES = Array.from({ length: 50 }, () => v7());

function attachService(server: Server): Emit {
  const sinks: Emit[] = [];
  const user: Caller['user'] = {
    ...{ id: v7(), iss: 'bench', sub: 'bench', email: null, emailVerified: false, createdAt: 0, notBefore: null },
    ...{ tenantId: TENANT, role: 'user' },
  };
  const actors = {
    subscribe: ((type: string, sink: Emit) => {
      if (type === 'device.state') sinks.push(sink);
      return () => {};
    }) as Actors['subscribe'],
    owns: () => true,
    peek: () => ({ snapshot: { value: 'active' } }),
  };
  const quiet = { debug() {}, info() {}, warn() {}, error: console.error };
  const services = {
    actors,
    clock: systemClock,
    log: quiet,
    newId: v7,
    invalidations: makeLocalInvalidationBus(),
    revocations: { has: () => false, subscribe: () => () => {} },
    users: { get: async () => user, subscribe: () => () => {} },
    apiKeys: { subscribe: () => () => {} },
  } as unknown as WebSocketParts['services'];
  const identity: WebSocketParts['identity'] = {
    recognises: () => true,
    authenticate: (_credential, { via, requestId }) =>
      done({
        ...{ user, tenantId: TENANT, role: 'user', scopes: null, platformAdmin: false, token: null, endsAt: null },
        requestId,
        principal: { kind: 'user', id: user.id, via },
      }),
  };
  const sockets = new WebSocketEdge({
    streams: [stateStream(services as never)],
    services,
    identity,
    rateLimiter: {
      chargeAnonymous: () => ({ headers: [], refusal: null }),
      ...{ signInRefusal: () => null, recordFailedSignIn: () => null },
    },
    addressOf: () => '127.0.0.1',
    quota: new ConnectionQuota({ perCredential: Infinity, perTenant: Infinity }),
  });
  server.on('upgrade', (request, socket, head) => sockets.upgrade(request, socket, head));
  return (output) => {
    for (const sink of sinks) sink(output);
  };
}

function attachPlainLoop(server: Server, once: boolean): Emit {
  const clients = new Set<WebSocket>();
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  sockets.on('connection', (socket) => {
    clients.add(socket);
    socket.on('message', () => socket.send('pong'));
    socket.on('close', () => clients.delete(socket));
  });
  const textOf = ({ deviceId, state, at }: StateOutput) => JSON.stringify(stateMessage(deviceId, state, at));
  if (!once)
    return (output) => {
      for (const client of clients) client.send(textOf(output));
    };
  return (output) => {
    const text = textOf(output);
    for (const client of clients) client.send(text);
  };
}

const server = createServer();
const kind = process.argv[2] as ServerKind;
const emit = kind === 'ours' ? attachService(server) : attachPlainLoop(server, kind === 'text once');
const states: JsonObject[] = DEVICES.map((id) => deviceState(0, id));
let version = 0;

/** Emits the updates that are due by the clock; a loop that is late catches up, until the deadline. */
function run({ perSecond, milliseconds, graceMs }: Run): Promise<RunResult> {
  const startedAt = Date.now();
  const until = startedAt + milliseconds + graceMs;
  const total = Math.round((perSecond * milliseconds) / 1000);
  let sent = 0;
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      const due = Math.min(total, Math.floor(((Date.now() - startedAt) * perSecond) / 1000));
      for (; sent < due && Date.now() <= until; sent++) {
        const n = sent % DEVICES.length;
        const state = states[n] as JsonObject;
        state.counter = ++version;
        const deviceId = DEVICES[n] as string;
        const at = Date.now();
        const report = { report: state, deviceAt: at, sequence: version };
        emit({ type: 'device.state', tenantId: TENANT, deviceId, state, stateVersion: version, ...report, at });
      }
      if (sent < total && Date.now() <= until) return;
      clearInterval(timer);
      resolve({ sent, until: sent < total ? null : until });
    }, 1);
  });
}

process.on('message', async ({ run: options }: { run: Run }) => {
  process.send?.({ ran: await run(options) });
});
process.on('disconnect', () => process.exit(0));
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));

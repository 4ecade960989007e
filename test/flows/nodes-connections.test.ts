import { once } from 'node:events';
import { afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import { eventually } from '../support/clock.ts';
import { connect, register } from '../support/device.ts';
import { type RunningNode, RunningNodes, type TenantOwner } from '../support/running-nodes.ts';

/** Ends the tenant's stay at a node: gracefully or by a crash. Resolves when another node serves it. */
interface Move {
  title: string;
  move(running: RunningNodes, node: RunningNode): Promise<void>;
}

const moves: Move[] = [
  {
    title: 'a graceful move',
    async move(running, node) {
      const resume = await running.drain(node);
      await resume();
    },
  },
  {
    title: 'a crash of the owner',
    async move(running, node) {
      await running.end(node);
      await running.spread();
    },
  },
];

describe.runIf(inject('postgresUrl'))('connections to three nodes', () => {
  const running = new RunningNodes();
  let owner: TenantOwner;
  const closing: (() => unknown)[] = [];
  beforeAll(async () => {
    owner = await running.owner('owner');
  });
  beforeEach(() => running.restore());
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  /** The owner of the tenant, and a node that stays. */
  const roles = async () => {
    const [through] = (await running.othersOf(owner.tenantId)) as [RunningNode];
    return { serving: await running.ownerOf(owner.tenantId), through };
  };
  const wsUrl = ({ url }: RunningNode, path: string) => `${url.replace('http', 'ws')}${path}`;

  describe('an MCP session', () => {
    const post = (node: RunningNode, message: object, session: string | null) =>
      fetch(`${node.url}/mcp`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${owner.token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...(session !== null && { 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18' }),
        },
        body: JSON.stringify({ jsonrpc: '2.0', ...message }),
      });
    const initialize = async (node: RunningNode): Promise<string> => {
      const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
      const response = await post(node, { id: 1, method: 'initialize', params }, null);
      await response.text();
      const session = response.headers.get('mcp-session-id') ?? '';
      await post(node, { method: 'notifications/initialized' }, session);
      return session;
    };
    const listTools = async (node: RunningNode, session: string) => {
      const response = await post(node, { id: 2, method: 'tools/list' }, session);
      return { status: response.status, body: await response.text() };
    };

    it.each(moves)(
      'works through every node, and after $title is unknown, so that its client starts a new one',
      async ({ move }) => {
        const { serving, through } = await roles();
        const session = await initialize(through);
        for (const node of running.nodes) {
          const { status, body } = await listTools(node, session);
          expect([status, body]).toEqual([200, expect.stringContaining('"tools"')]);
        }
        const stream = await fetch(`${through.url}/mcp`, {
          headers: { authorization: `Bearer ${owner.token}`, accept: 'text/event-stream', 'mcp-session-id': session },
        });
        expect(stream.status).toBe(200);
        const ended = stream.text().catch(() => 'broken');
        await move(running, serving);
        await ended;
        // Streamable HTTP, session management: the client then sends a new initialize request.
        for (const node of running.nodes) expect((await listTools(node, session)).status).toBe(404);
        const next = await initialize(through);
        for (const node of running.nodes) expect((await listTools(node, next)).status).toBe(200);
      },
    );
  });

  describe('GraphQL over WebSocket', () => {
    /** A connection that has been acknowledged, with its messages and close code. */
    async function open(node: RunningNode) {
      const ws = new WebSocket(wsUrl(node, '/graphql'), ['graphql-transport-ws']);
      closing.push(() => ws.terminate());
      ws.on('error', () => {});
      const messages: { type: string; id?: string; payload?: unknown }[] = [];
      ws.on('message', (data) => messages.push(JSON.parse(`${data}`)));
      const closed = once(ws, 'close').then(([code]) => code as number);
      await once(ws, 'open');
      ws.send(JSON.stringify({ type: 'connection_init', payload: { Authorization: `Bearer ${owner.token}` } }));
      await eventually(() => messages.some(({ type }) => type === 'connection_ack'));
      const request = (id: string, query: string) =>
        ws.send(JSON.stringify({ type: 'subscribe', id, payload: { query } }));
      const received = (id: string) =>
        messages.find((message) => message.type === 'next' && message.id === id)?.payload;
      const next = (id: string) => eventually(() => received(id));
      return { request, received, next, closed };
    }

    it.each(moves)(
      'answers queries and subscriptions through any node, and is closed by $title with the advice to connect again',
      async ({ move }) => {
        const { serving, through } = await roles();
        const device = await register(running.at(through, owner));
        const query = '{ devices(first: 1) { nodes { id } } }';
        const subscription = 'subscription { commandChanged { status } }';
        const works = async (node: RunningNode) => {
          const connection = await open(node);
          connection.request('query', query);
          expect(await connection.next('query')).toMatchObject({
            data: { devices: { nodes: [{ id: device.device_id }] } },
          });
          connection.request('subscription', subscription);
          const input = `{ deviceId: "${device.device_id}", action: "turn_on" }`;
          let mutations = 0;
          // The subscription may start after the first mutation.
          await eventually(async () => {
            mutations += 1;
            connection.request(`mutation ${mutations}`, `mutation { commandDevice(input: ${input}) { __typename } }`);
            expect(await connection.next(`mutation ${mutations}`)).not.toHaveProperty('errors');
            return connection.received('subscription');
          });
          expect(connection.received('subscription')).toMatchObject({ data: { commandChanged: {} } });
          return connection;
        };
        const connections = [];
        for (const node of [through, serving]) connections.push(await works(node));
        await move(running, serving);
        const codes = await Promise.all(connections.map(({ closed }) => closed));
        // 1006: the connection to the process that has crashed.
        for (const code of codes) expect([1001, 1006]).toContain(code);
        await works(through);
      },
    );
  });

  describe('/ws/state', () => {
    /** A client as docs/websocket.md describes it: connects again with a snapshot. Keeps the states that it has received. */
    function follow(node: RunningNode, deviceId: string) {
      const brightness: number[] = [];
      const codes: number[] = [];
      let stopped = false;
      let socket: WebSocket | null = null;
      const run = async (): Promise<void> => {
        while (!stopped) {
          const { status, body } = await running.at(node, owner).post('/ws/ticket');
          if (status >= 500) continue;
          const query = new URLSearchParams({ token: body.ticket, snapshot: '1', device_id: deviceId });
          socket = new WebSocket(wsUrl(node, `/ws/state?${query}`));
          socket.on('error', () => {});
          socket.on('message', (data) => brightness.push(JSON.parse(`${data}`).state.brightness));
          const [code] = (await once(socket, 'close')) as [number];
          if (!stopped) codes.push(code);
        }
      };
      const finished = run();
      const stop = async (): Promise<void> => {
        stopped = true;
        socket?.terminate();
        await finished;
      };
      closing.push(stop);
      return { brightness, codes, finished };
    }

    it.each(moves)('and a device, both through other nodes, miss no update over $title', async ({ move }) => {
      const { serving, through } = await roles();
      const registered = await register(running.at(through, owner));
      const device: Device = await connect(
        { ...registered, mqtt_url: wsUrl(through, '/mqtt') },
        { state: { brightness: 1 } },
      );
      closing.push(() => device.close());
      const client = follow(through, registered.device_id);
      await eventually(() => client.brightness.includes(1));
      let last = 1;
      let moving = true;
      const reporting = (async () => {
        while (moving) {
          last += 1;
          await device.report({ brightness: last });
        }
      })();
      await eventually(() => client.brightness.includes(2));
      await move(running, serving);
      moving = false;
      await reporting;
      last += 1;
      await device.report({ brightness: last });
      await eventually(() => client.brightness.at(-1) === last);
      expect(client.codes.length).toBeGreaterThan(0);
      // Below 4400: the client connects again. Updates never go back.
      expect(client.codes.filter((code) => code >= 4400)).toEqual([]);
      expect(client.brightness).toEqual([...client.brightness].sort((a, b) => a - b));
    });
  });
});

import { RawConnection } from '../support/raw-http.ts';

/* The load process: callers on keep-alive connections, each with one request at a time. */

export const apiKinds = ['REST', 'GraphQL', 'MCP'] as const;
export type ApiKind = (typeof apiKinds)[number];

export interface Loop {
  api: ApiKind;
  port: number;
  token: string;
  connections: number;
  warmMs: number;
  measureMs: number;
}

export interface LoopResult {
  perSecond: number;
  total: number;
  /** Milliseconds. */
  latencies: number[];
  /** Size of the last response body. */
  bytes: number;
}

/** Fields of an entry of `GET /devices`. */
const FIELDS = 'id deviceType homeId roomId firmware lastSeen revoked name online';
const QUERY = `{ devices(first: 50) { totalCount nodes { ${FIELDS} } pageInfo { hasNextPage endCursor } } }`;
const bodies = {
  GraphQL: JSON.stringify({ query: QUERY }),
  MCP: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'list_devices', arguments: { limit: 50 } },
  }),
};

async function run({ api, port, token, connections, warmMs, measureMs }: Loop): Promise<LoopResult> {
  const callers = await Promise.all(Array.from({ length: connections }, () => RawConnection.open(port)));
  const begin = performance.now() + warmMs;
  const end = begin + measureMs;
  const authorization = `Authorization: Bearer ${token}\r\n`;
  const forTools = `${authorization}Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\n`;
  const send = (caller: RawConnection) => {
    if (api === 'REST') return caller.get('/v1/devices?limit=50', authorization);
    return api === 'GraphQL'
      ? caller.post('/graphql', authorization, bodies.GraphQL)
      : caller.post('/mcp', forTools, bodies.MCP);
  };
  const latencies: number[] = [];
  let [total, bytes] = [0, 0];
  await Promise.all(
    callers.map(async (caller) => {
      while (performance.now() < end) {
        const started = performance.now();
        total += 1;
        const { status, body } = await send(caller);
        if (status !== 200 || body.length < 5_000) throw new Error(`${status} ${body}`);
        bytes = body.length;
        const now = performance.now();
        if (now >= begin && now < end) latencies.push(now - started);
      }
    }),
  );
  for (const caller of callers) caller.close();
  return { perSecond: latencies.length / (measureMs / 1000), total, latencies, bytes };
}

process.on('message', ({ loop }: { loop: Loop }) => {
  run(loop).then(
    (result) => process.send?.({ result }),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit(0));

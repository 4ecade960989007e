import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { CallToolResult, ClientCapabilities } from '@modelcontextprotocol/sdk/types.js';

export const transports = ['Streamable HTTP', 'HTTP+SSE'] as const;
export type TransportName = (typeof transports)[number];

/** The SDK's client, as an agent uses it. */
export async function mcpClient(
  url: string,
  token: string,
  {
    transport = 'Streamable HTTP',
    capabilities = {},
  }: { transport?: TransportName; capabilities?: ClientCapabilities } = {},
): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities });
  const headers = { authorization: `Bearer ${token}` };
  const endpoint = new URL('/mcp', url);
  await client.connect(
    transport === 'HTTP+SSE'
      ? new SSEClientTransport(endpoint, { requestInit: { headers }, eventSourceInit: { fetch: withHeaders(headers) } })
      : (new StreamableHTTPClientTransport(endpoint, { requestInit: { headers } }) as never),
  );
  return client;
}

const withHeaders =
  (more: Record<string, string>) =>
  (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(more)) headers.set(name, value);
    return fetch(url, { ...init, headers });
  };

/** Calls a tool; the client validates the result against the tool's output schema. */
export const callTool = async (client: Client, name: string, args: object = {}): Promise<CallToolResult> =>
  (await client.callTool({ name, arguments: args as Record<string, unknown> })) as CallToolResult;

/** Refusal code of a result, or null. */
export function codeOf(result: CallToolResult): string | null {
  const refusal = result._meta?.['twinkeep/refusal'] as { code: string } | undefined;
  return result.isError === true && refusal !== undefined ? refusal.code : null;
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads what an external client would read
export const structured = (result: CallToolResult): any => result.structuredContent;

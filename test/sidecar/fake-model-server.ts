import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request that the local server received; it implements the chat-completions protocol. */
export interface ModelRequest {
  path: string;
  headers: IncomingHttpHeaders;
  body: {
    model: string;
    messages: {
      role: string;
      content: string | null;
      tool_calls?: { id: string; function: { name: string; arguments: string } }[];
      tool_call_id?: string;
    }[];
    tools: {
      type: string;
      function: {
        name: string;
        description: string;
        parameters: { properties: Record<string, { enum?: string[] }>; required: string[] };
      };
    }[];
  };
}

export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  /** A string is sent unchanged. */
  body: unknown;
}

export interface ModelServer {
  url: string;
  requests: ModelRequest[];
  close(): Promise<void>;
}

/** Answers with `reply` of the request and its number, from 0; an error breaks the connection. */
export async function modelServer(
  reply: (requested: ModelRequest, n: number) => Reply | Promise<Reply>,
): Promise<ModelServer> {
  const requested: ModelRequest[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const one = { path: request.url ?? '', headers: request.headers, body: JSON.parse(text) };
    requested.push(one);
    try {
      const { status = 200, headers = {}, body } = await reply(one, requested.length - 1);
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    } catch {
      request.socket.destroy();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests: requested,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export const textReply = (content: string): Reply => ({
  body: {
    id: 'x',
    object: 'chat.completion',
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
  },
});

export const calls = (...functions: readonly [name: string, given: unknown][]): Reply => ({
  body: {
    choices: [
      {
        finish_reason: 'tool_calls',
        message: {
          role: 'assistant',
          content: null,
          tool_calls: functions.map(([name, given], n) => ({
            id: `call_${n}`,
            type: 'function',
            function: { name, arguments: typeof given === 'string' ? given : JSON.stringify(given) },
          })),
        },
      },
    ],
  },
});

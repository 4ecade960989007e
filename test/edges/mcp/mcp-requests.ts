import { request } from 'node:http';
import { afterAll, afterEach } from 'vitest';
import type { HttpService, HttpServiceOptions } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

export let service: HttpService;
export let mine: TestTenant;
let shared: HttpService | null = null;

/** Closes the services that the tests of the file have opened. */
export function withMcpServices(): void {
  afterEach(async () => {
    if (service !== shared) await service.close();
  });
  afterAll(async () => {
    await shared?.close();
    shared = null;
  });
}

/** With options: a new service. Without: a new tenant of a service that the tests of the file share. */
export async function open(options?: HttpServiceOptions): Promise<void> {
  if (options === undefined) shared ??= await startHttpServiceOnDatabase();
  service = options === undefined ? (shared as HttpService) : await startHttpServiceOnDatabase(options);
  mine = await makeTestTenant(service);
}

export type RequestHeaders = Record<string, string>;
export const INITIALIZE = {
  ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
};
export const rpc = (method: string, params: object = {}, id: number | string = 7) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
});
export const WHOAMI = rpc('tools/call', { name: 'whoami', arguments: {} });

export const sendRequest = async (body: unknown, headers: RequestHeaders = {}, method = 'POST', path = '/mcp') => {
  const response = await fetch(service.url + path, {
    method,
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...{ accept: 'application/json, text/event-stream', authorization: `Bearer ${mine.tokens.owner}` },
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = /json/.test(response.headers.get('content-type') ?? '');
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
};
export const begin = async (headers: RequestHeaders = {}): Promise<RequestHeaders> => {
  const { headers: answered } = await sendRequest(INITIALIZE, headers);
  return { ...headers, 'mcp-session-id': answered.get('mcp-session-id') ?? '' };
};
/** Opens a stream and returns what it has received so far; the stream stays open. */
export const listen = async (headers: RequestHeaders, path = '/mcp') => {
  const stop = new AbortController();
  const response = await fetch(service.url + path, {
    headers: { accept: 'text/event-stream', authorization: `Bearer ${mine.tokens.owner}`, ...headers },
    signal: stop.signal,
  });
  const stream = { status: response.status, text: '', ended: false, close: () => stop.abort() };
  const decoder = new TextDecoder();
  void (async () => {
    for await (const chunk of response.body ?? []) stream.text += decoder.decode(chunk as Uint8Array);
  })()
    .catch(() => {})
    .finally(() => {
      stream.ended = true;
    });
  return stream;
};
/** Sends a request with a different `Host`, which `fetch` does not allow. */
export const raw = (headers: RequestHeaders): Promise<number> =>
  new Promise((resolve, reject) => {
    const all = { authorization: `Bearer ${mine.tokens.owner}`, 'content-type': 'application/json', ...headers };
    const requested = request(`${service.url}/mcp`, { method: 'POST', headers: all }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    requested.on('error', reject);
    requested.end(JSON.stringify(WHOAMI));
  });

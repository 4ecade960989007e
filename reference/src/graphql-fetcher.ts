import { createGraphiQLFetcher, type Fetcher } from '@graphiql/toolkit';
import { parse } from 'graphql';
import { createClient } from 'graphql-ws';

const ENDPOINT = '/graphql';

/**
 * Sends queries and mutations over HTTP, and subscriptions over graphql-transport-ws. `credential` is a token or an API
 * key; if it is empty, the browser's session is used.
 */
export function makeFetcher(credential: () => string): Fetcher {
  return (params, options) => {
    const authorization = headerOf(options?.headers, 'authorization') ?? bearer(credential());
    const url = new URL(ENDPOINT, location.href);
    const wsClient = createClient({
      url: url.href.replace(/^http/, 'ws'),
      retryAttempts: 0,
      connectionParams: async () => ({ Authorization: authorization ?? bearer(await requestTicket()) }),
    });
    const sendRequest: typeof fetch = async (input, init) => {
      const headers = new Headers(init?.headers);
      for (const [name, value] of Object.entries(await credentialHeaders(authorization))) headers.set(name, value);
      return fetch(input, { ...init, headers });
    };
    const send = createGraphiQLFetcher({ url: url.href, fetch: sendRequest, wsClient });
    // GraphiQL parses the text after a delay; its document may be that of the text before.
    return send(params, { ...options, documentAST: parse(params.query) });
  };
}

const bearer = (credential: string): string | undefined => (credential === '' ? undefined : `Bearer ${credential}`);

function headerOf(headers: Readonly<Record<string, unknown>> | undefined, name: string): string | undefined {
  const found = Object.entries(headers ?? {}).find(([key]) => key.toLowerCase() === name);
  return found === undefined ? undefined : `${found[1]}`;
}

/** With the browser's session a mutation needs the CSRF token; with a token or API key it does not. */
async function credentialHeaders(authorization: string | undefined): Promise<Record<string, string>> {
  if (authorization !== undefined) return { authorization };
  const response = await fetch('/v1/auth/csrf');
  return response.ok ? { 'x-csrf-token': (await response.json()).csrf_token } : {};
}

/** The session cookie is not accepted for WebSockets; it is exchanged for a ticket. */
async function requestTicket(): Promise<string> {
  const headers = { ...(await credentialHeaders(undefined)), 'content-type': 'application/json' };
  const response = await fetch('/ws/ticket', { method: 'POST', headers, body: '{}' });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer.ticket;
}

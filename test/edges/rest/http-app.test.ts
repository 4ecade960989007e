import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeFastRouter } from '../../../src/edges/rest/fast-router.ts';
import { makeHttpApp } from '../../../src/edges/rest/http-app.ts';
import type { Responder } from '../../../src/edges/rest/responder.ts';
import type { RouteEntry } from '../../../src/edges/rest/route-entry.ts';
import { routes } from '../../../src/edges/rest/routes.ts';
import { httpExchangeOf } from '../../../src/edges/shared/http-exchange.ts';

const entries = routes.flatMap(({ method, path }): RouteEntry[] =>
  ['/v1', '/api/v1', ''].map((root) => ({ method, path: root + path, root, label: path, answer: async () => {} })),
);

/** Answers with what Express routed to. */
const responder = {
  answer: ({ response }, entry, values) =>
    void response.end(JSON.stringify({ method: entry.method, path: entry.path, values })),
  refusePath: ({ response }) => void response.end('"no path"'),
  refuseMethod: ({ response }, allow) => void response.end(JSON.stringify({ allow })),
  refuseThrown: ({ response }, thrown) => void response.end(JSON.stringify({ thrown: `${thrown}` })),
} satisfies Partial<Responder> as unknown as Responder;

let server: Server;
beforeAll(async () => {
  const app = makeHttpApp({ entries, consoleRoutes: null, responder });
  server = createServer((request, response) => {
    const exchange = httpExchangeOf(request, response, { newId: () => '' });
    app(request, response, exchange);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => server.close());

/** Sends the path unchanged; `fetch` would normalize it. */
async function routed(method: string, path: string): Promise<unknown> {
  const { port } = server.address() as AddressInfo;
  const sent = request({ port, method, path }).end();
  const [response] = await once(sent, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return JSON.parse(`${Buffer.concat(chunks)}`);
}

const fastRouter = makeFastRouter(entries);

function fastRouted(method: string, path: string): unknown {
  const found = fastRouter.find(method, path);
  return found && { method: found.entry.method, path: found.entry.path, values: found.values };
}

describe('the Express application', () => {
  it('routes every operation as the fast router does', async () => {
    for (const { method, path } of entries) {
      for (const sent of [path.replace(/\{\w+\}/g, 'an%20id.x'), `${path.replace(/\{\w+\}/g, 'a%2Fb')}/`]) {
        const expected = fastRouted(method, sent);
        expect(expected, `${method} ${sent}`).toMatchObject({ method, path });
        expect(await routed(method, sent), `${method} ${sent}`).toEqual(expected);
      }
    }
  });

  it('routes a literal segment before a parameter', async () => {
    const literals = entries.filter(({ path }) => !path.includes('{'));
    for (const { method, path } of literals) {
      expect(await routed(method, path)).toEqual({ method, path, values: [] });
    }
  });

  it('refuses a method that a path does not have, with those that it has', async () => {
    expect(await routed('PUT', '/v1/homes')).toEqual({ allow: 'POST, GET, HEAD, OPTIONS' });
    expect(await routed('OPTIONS', '/v1/homes/x')).toEqual({ allow: 'GET, PATCH, DELETE, HEAD, OPTIONS' });
  });

  it('routes a segment with an encoded control character as the fast router does', async () => {
    const path = '/v1/homes/%00';
    expect(await routed('PATCH', path)).toEqual(fastRouted('PATCH', path));
    expect(await routed('PUT', path)).toEqual({ allow: 'GET, PATCH, DELETE, HEAD, OPTIONS' });
  });

  it.each(['http://host', 'http://[', 'http://host:port', 'http://%'])(
    'routes a target at %s by its path',
    async (at) => {
      expect(await routed('PUT', `${at}/v1/homes`)).toEqual({ allow: 'POST, GET, HEAD, OPTIONS' });
      expect(await routed('PUT', `${at}/v1/nothing`)).toBe('no path');
    },
  );

  it.each([
    '/',
    '/v1',
    '/v1/x//',
    '/v1//homes',
    '/V1/homes/x',
    '/v1/Homes/x',
    'ftp://host/v1/homes/x',
    '/v1/homes/x#y',
    '/v1/homes/%zz',
    '/v1/homes/%',
    '/v1/homes/%ff',
    'a://',
  ])('has nothing at %s', async (path) => {
    expect(await routed('PATCH', path)).toBe('no path');
  });
});

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { tools } from '../../src/edges/mcp/tools/tool-list.ts';
import type { ServiceUnderTest } from './service-under-test.ts';

// External conformance checks of `/mcp`: the protocol's conformance suite, and the inspector's command line on both
// transports.

const { resolve } = createRequire(import.meta.url);
const conformance = join(dirname(resolve('@modelcontextprotocol/conformance/package.json')), 'dist/index.js');
const inspector = join(
  dirname(resolve('@modelcontextprotocol/inspector/package.json')),
  'clients/launcher/build/index.js',
);
/** Scenarios that are expected to fail, each with the reason; if one passes, the run fails as well. */
const expectedFailures = new URL('mcp-expected-failures.yaml', import.meta.url).pathname;

export async function checkMcp({ url, work, token }: ServiceUnderTest): Promise<void> {
  const credential = await token('agent', { email: 'agent@example.com' });
  const asOwner = async (path: string, body: object): Promise<{ id: string }> => {
    const headers = { authorization: `Bearer ${credential}`, 'content-type': 'application/json' };
    const answer = await fetch(`${url}/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as { id: string };
  };
  await asOwner('/tenant/register', { tenant_name: 'Conformance' });
  const home = await asOwner('/homes', { home_name: 'Home' });
  await asOwner('/device/register', { device_type: 'smart_lock', home_id: home.id, name: 'Front door' });

  const proxy = await startAuthProxy(url, credential);
  try {
    await runChecker('conformance', conformance, work, [
      ...['server', '--url', `${proxy.url}/mcp`, '--suite', 'all'],
      ...['--expected-failures', expectedFailures, '--output-dir', join(work, 'conformance')],
    ]);
  } finally {
    proxy.close();
  }

  for (const transport of ['http', 'sse']) {
    const inspect = (method: string, ...more: string[]): Promise<string> =>
      runChecker(`inspector ${transport} ${method}`, inspector, work, [
        ...['--cli', '--server-url', `${url}/mcp`, '--transport', transport],
        ...['--header', `Authorization: Bearer ${credential}`, '--method', method, ...more],
      ]);
    const found = await inspect('tools/list', '--strict');
    if (/^(Error|Warning): /m.test(found)) throw new Error(`inspector --strict found:\n${found}`);
    const listed = found.match(/"inputSchema"/g)?.length;
    if (listed !== tools.length) throw new Error(`the inspector listed ${listed} tools, expected ${tools.length}`);
    await inspect('tools/call', '--tool-name', 'list_devices', '--tool-arg', 'limit=1');
    await inspect('resources/list');
    await inspect('resources/read', '--uri', `twin://homes/${home.id}`);
    await inspect('resources/templates/list');
    await inspect('prompts/list');
    await inspect('prompts/get', '--prompt-name', 'check_house');
    // A client that tries the newest revision first finds that it is not supported, and falls back to one that is.
    if (transport === 'http') await inspect('prompts/list', '--protocol-era', 'auto');
  }
}

/** Runs a checker to its end and returns its output; throws if it fails. */
async function runChecker(name: string, script: string, home: string, args: readonly string[]): Promise<string> {
  // Keeps the checker's own files in this run's folder.
  const env = { ...process.env, HOME: home, NO_COLOR: '1' };
  const child = spawn(process.execPath, [script, ...args], { env, cwd: home, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${name} ended with ${code}:\n${output}`);
  process.stdout.write(`${name}: passed\n`);
  return output;
}

/** A proxy that adds the credential to each request, because the suite does not support one. */
async function startAuthProxy(url: string, credential: string): Promise<{ url: string; close(): void }> {
  const server = createServer((incoming, outgoing) => {
    const { hostname, port } = new URL(url);
    const headers = { ...incoming.headers, authorization: `Bearer ${credential}` };
    const forwarded = request({ hostname, port, path: incoming.url, method: incoming.method, headers }, (upstream) => {
      outgoing.writeHead(upstream.statusCode ?? 502, upstream.headers);
      upstream.pipe(outgoing);
    });
    forwarded.on('error', () => outgoing.destroy());
    outgoing.on('close', () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

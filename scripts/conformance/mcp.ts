import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import type { ServiceUnderTest } from './service-under-test.ts';

// Other people's judges over `/mcp`: the protocol's conformance suite, and the inspector's command line on both transports.

const { resolve } = createRequire(import.meta.url);
const conformance = join(dirname(resolve('@modelcontextprotocol/conformance/package.json')), 'dist/index.js');
const inspector = join(
  dirname(resolve('@modelcontextprotocol/inspector/package.json')),
  'clients/launcher/build/index.js',
);
/** Scenarios that fail, each with why: one that passes by now fails the run as well. */
const expectedFailures = new URL('mcp-expected-failures.yaml', import.meta.url).pathname;

export async function checkMcp({ url, work, token }: ServiceUnderTest): Promise<void> {
  const credential = await token('agent', { email: 'agent@example.com' });
  const asOwner = async (path: string, body: object): Promise<{ id: string }> => {
    const headers = { authorization: `Bearer ${credential}`, 'content-type': 'application/json' };
    const answer = await fetch(`${url}/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as { id: string };
  };
  await asOwner('/tenant/register', { tenant_name: 'Judged' });
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
    const ask = (method: string, ...more: string[]): Promise<string> =>
      runChecker(`inspector ${transport} ${method}`, inspector, work, [
        ...['--cli', '--server-url', `${url}/mcp`, '--transport', transport],
        ...['--header', `Authorization: Bearer ${credential}`, '--method', method, ...more],
      ]);
    const found = await ask('tools/list', '--strict');
    if (/^(Error|Warning): /m.test(found)) throw new Error(`inspector --strict found:\n${found}`);
    const listed = found.match(/"inputSchema"/g)?.length;
    if (listed !== 25) throw new Error(`the inspector saw ${listed} tools`);
    await ask('tools/call', '--tool-name', 'list_devices', '--tool-arg', 'limit=1');
    await ask('resources/list');
    await ask('resources/read', '--uri', `twin://homes/${home.id}`);
    await ask('resources/templates/list');
    await ask('prompts/list');
    await ask('prompts/get', '--prompt-name', 'check_house');
    // A client that tries the newest revision first finds out that it is not spoken here, and goes on with one that is.
    if (transport === 'http') await ask('prompts/list', '--protocol-era', 'auto');
  }
}

/** Runs a judge to its end; what it said, when it found nothing. */
async function runChecker(name: string, script: string, home: string, args: readonly string[]): Promise<string> {
  // Whatever it keeps for itself it keeps in this run's own folder.
  const env = { ...process.env, HOME: home, NO_COLOR: '1' };
  const child = spawn(process.execPath, [script, ...args], { env, cwd: home, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${name} ended with ${code}:\n${said}`);
  process.stdout.write(`${name}: passed\n`);
  return said;
}

/** Adds the credential to each request: the suite knows of none. Everything else goes through as it came. */
async function startAuthProxy(url: string, credential: string): Promise<{ url: string; close(): void }> {
  const server = createServer((asked, answer) => {
    const { hostname, port } = new URL(url);
    const headers = { ...asked.headers, authorization: `Bearer ${credential}` };
    const passed = request({ hostname, port, path: asked.url, method: asked.method, headers }, (answered) => {
      answer.writeHead(answered.statusCode ?? 502, answered.headers);
      answered.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
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

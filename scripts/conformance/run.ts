import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../test/support/programs.ts';
import { findDrift } from './api-drift.ts';
import { checkMcp } from './mcp.ts';
import { runRedocly, startRedocly } from './redocly.ts';
import { startServiceUnderTest } from './service-under-test.ts';

// External conformance checks of the API descriptions and of `/mcp`: `npm run conformance [-- FOLDER]`. FOLDER contains the
// traffic that the tests recorded with RECORD_TRAFFIC.

const [recorded] = process.argv.slice(2);
const service = await startServiceUnderTest();
try {
  const { url, work, openApi, asyncApi, token } = service;
  const flows = join(work, 'flows.arazzo.yaml');
  copyFileSync(new URL('../../docs/flows.arazzo.yaml', import.meta.url), flows);

  for (const document of [openApi, asyncApi, flows]) await runRedocly('lint', document, '--max-problems=50');

  // The flows go through a proxy that checks each exchange against the description.
  const port = await freePort();
  const har = join(work, 'flows.har');
  const proxy = startRedocly('proxy', [`--target=${url}`, `--port=${port}`, `--har=${har}`, `--api=${openApi}`], false);
  try {
    await proxy.waitForOutput(/listening on/);
    const inputs = {
      owner: `Bearer ${await token('owner', { email: 'owner@example.com' })}`,
      guest: `Bearer ${await token('guest', { email: 'guest@example.com' })}`,
      guest_email: 'guest@example.com',
    };
    const options = Object.entries(inputs).map(([name, value]) => `--input=${name}=${value}`);
    await runRedocly('respect', flows, `--server=twinkeep=http://127.0.0.1:${port}/v1`, ...options);
  } finally {
    proxy.stop();
    await proxy.ended;
  }
  printDrift('the flows', await findDrift(har, openApi, work));

  await checkMcp(service);

  if (recorded !== undefined) printDrift('the tests', await findDrift(recorded, openApi, work));
} finally {
  await service.stop();
}

function printDrift(of: string, { exchanges, found }: { exchanges: number; found: string[] }): void {
  process.stdout.write(`drift: ${exchanges} exchanges of ${of}, ${found.length} findings\n`);
  if (exchanges === 0) throw new Error('no traffic was recorded');
  if (found.length > 0) throw new Error(found.slice(0, 50).join('\n'));
}

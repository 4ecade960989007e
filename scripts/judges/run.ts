import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../test/support/programs.ts';
import { drift } from './drift.ts';
import { judgeMcp } from './mcp.ts';
import { judge, redocly } from './redocly.ts';
import { startJudged } from './service.ts';

// Other people's judges over the descriptions of the API and over `/mcp`: `npm run judges [-- FOLDER]`. FOLDER holds what the
// tests recorded with RECORD_TRAFFIC.

const [recorded] = process.argv.slice(2);
const judged = await startJudged();
try {
  const { url, work, openApi, asyncApi, token } = judged;
  const flows = join(work, 'flows.arazzo.yaml');
  copyFileSync(new URL('../../docs/flows.arazzo.yaml', import.meta.url), flows);

  for (const document of [openApi, asyncApi, flows]) await judge('lint', document, '--max-problems=50');

  // The flows go through a proxy that holds each exchange against the description while it happens.
  const port = await freePort();
  const har = join(work, 'flows.har');
  const proxy = redocly('proxy', [`--target=${url}`, `--port=${port}`, `--har=${har}`, `--api=${openApi}`], false);
  try {
    await proxy.says(/listening on/);
    const inputs = {
      owner: `Bearer ${await token('owner', { email: 'owner@example.com' })}`,
      guest: `Bearer ${await token('guest', { email: 'guest@example.com' })}`,
      guest_email: 'guest@example.com',
    };
    const given = Object.entries(inputs).map(([name, value]) => `--input=${name}=${value}`);
    await judge('respect', flows, `--server=twinkeep=http://127.0.0.1:${port}/v1`, ...given);
  } finally {
    proxy.stop();
    await proxy.ended;
  }
  tell('the flows', await drift(har, openApi, work));

  await judgeMcp(judged);

  if (recorded !== undefined) tell('the tests', await drift(recorded, openApi, work));
} finally {
  await judged.stop();
}

function tell(of: string, { exchanges, found }: { exchanges: number; found: string[] }): void {
  process.stdout.write(`drift: ${exchanges} exchanges of ${of}, ${found.length} findings\n`);
  if (exchanges === 0) throw new Error('no traffic was recorded');
  if (found.length > 0) throw new Error(found.slice(0, 50).join('\n'));
}

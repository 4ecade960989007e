import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { closeReasons } from '../../src/edges/shared/live/close-codes.ts';
import { updateKinds } from '../../src/edges/shared/live/update-kinds.ts';
import { eventually } from '../support/clock.ts';
import { connect, register } from '../support/device.ts';
import { codeBlock, readDocument } from '../support/documented-session.ts';
import { nodeEnv } from '../support/node-flags.ts';
import { startService, type TestService } from '../support/service.ts';

const page = readDocument('docs/websocket.md');

describe('docs/websocket.md', () => {
  let at: TestService;
  let folder: string;
  beforeAll(async () => {
    at = await startService();
    folder = mkdtempSync(join(tmpdir(), 'twinkeep-document-'));
    writeFileSync(join(folder, 'watch.mjs'), codeBlock(page, 'js'));
  });
  afterAll(async () => {
    await at.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Runs the client of the document; `lines` are its output so far. */
  function watch(token: string): { child: ChildProcess; lines: string[] } {
    const child = spawn(process.execPath, [join(folder, 'watch.mjs'), at.url, token], { env: nodeEnv });
    const lines: string[] = [];
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => lines.push(...text.split('\n').filter(Boolean)));
    }
    return { child, lines };
  }

  it('has a client that prints the snapshot and the updates, and ends with its credential', async () => {
    const owner = await at.owner();
    const registered = await register(owner);
    const device = await connect(registered, { state: { brightness: 40 } });
    await eventually(async () => (await owner.get(`/v1/devices/${registered.device_id}`)).body.device.state.brightness);
    const { child, lines } = watch(owner.token);
    const ended = new Promise((resolve) => child.once('close', resolve));
    try {
      await eventually(() => lines.some((line) => line.includes('"state":{"brightness":40}')));
      await device.report({ brightness: 50 });
      await eventually(() => lines.some((line) => line.includes('"state":{"brightness":50}')));
      await owner.post('/v1/auth/logout');
      await ended;
      expect(lines.at(-1)).toMatch(/^closed: 4401 /);
    } finally {
      child.kill();
      await device.close();
    }
  });

  it('lists every kind of update, and every close code', () => {
    const kinds = [...page.matchAll(/^\| `(\w+)` \| `\{"type": "(\w+)_update"/gm)].map(([, kind]) => kind);
    expect(kinds).toEqual(Object.keys(updateKinds));
    const codes = [...page.matchAll(/^\| (\d{4}(?:, \d{4})*) \|/gm)].flatMap(([, list = '']) => list.split(', '));
    expect(codes.toSorted()).toEqual(Object.keys(closeReasons).toSorted());
  });
});

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { eventually } from '../support/clock.ts';
import { nodeEnv } from '../support/node-flags.ts';
import { copyPglite } from '../support/pglite.ts';
import { freshDatabase } from '../support/store.ts';

const serverUrl = inject('postgresUrl');
const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Where {
  databaseUrl: string | null;
  dataDir: string;
}

/** Starts a process that writes, and kills it after `rounds` acknowledgements. */
async function writeAndKill(where: Where, rounds: number): Promise<{ ids: string[]; acknowledged: number }> {
  const script = new URL('../support/keep-writing.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, [script], {
    env: { ...nodeEnv, WRITE: JSON.stringify(where) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  closing.push(() => void child.kill('SIGKILL'));
  let acknowledged = 0;
  let ids: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const [version, ...rest] = line.split(' ');
    acknowledged = Number(version);
    ids = rest;
    if (acknowledged === rounds) child.kill('SIGKILL');
  }
  return { ids, acknowledged };
}

const backends = [
  {
    name: 'file-backed PGlite',
    async make(dataDir: string) {
      copyPglite(inject('pgliteTemplate'), dataDir);
      return { url: null, drop: async () => {} };
    },
  },
  ...(serverUrl === null
    ? []
    : [
        {
          name: 'PostgreSQL',
          make: () => freshDatabase(serverUrl),
        },
      ]),
];

describe.each(backends)('a process killed while it writes to $name', ({ make }) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-crash-'));
  let where: Where;
  let drop: () => Promise<void>;
  beforeAll(async () => {
    const made = await make(dataDir);
    where = { databaseUrl: made.url, dataDir };
    drop = made.drop;
  });
  afterAll(async () => {
    await drop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  // The second run continues with the data of the first one.
  it.each([7, 40])('lost nothing acknowledged in %i rounds, and left no partial commit', async (rounds) => {
    const { ids, acknowledged } = await writeAndKill(where, rounds);
    expect(acknowledged).toBeGreaterThanOrEqual(rounds);
    const store = await openStore(where);
    closing.push(() => store.close());
    // The server may still run the last statement of the killed process, and finish it between two reads.
    await eventually(async () => {
      const loaded = await store.actors.load('device', ids);
      expect(loaded).toHaveLength(ids.length);
      expect(new Set(loaded.map((actor) => actor.version)).size).toBe(1);
      const [{ version } = { version: 0 }] = loaded;
      expect(version).toBeGreaterThanOrEqual(acknowledged);
      const timers = await store.actors.dueTimers(Number.MAX_SAFE_INTEGER, 1_000);
      for (const { ref } of loaded) {
        const journal = await store.actors.journal(ref, 1_000);
        const versions = journal.map((entry) => entry.version);
        expect(versions).toEqual(Array.from({ length: version }, (_, n) => version - n));
        expect(timers.filter((timer) => timer.ref.id === ref.id).map((timer) => timer.dueAt)).toEqual([version]);
      }
      return true;
    });
  });
});

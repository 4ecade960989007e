import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { env } from 'node:process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import packageJson from '../package.json' with { type: 'json' };

// Starts the service with its sidecar once, because Node.js writes its cache of compiled modules (src/cli/main.ts) when a
// process ends.

const TIME_LIMIT_MS = 60_000;

/** The flags of `npm start`: V8 uses cached code only with the flags that it was compiled with. */
const flags = packageJson.scripts.start.match(/--\S+/g) ?? [];

/** Edges whose modules the first request loads. */
const DEFERRED_EDGES = ['mcp', 'graphql'];

/**
 * Resolves when the service has loaded all its modules and is connected to its sidecar, and rejects when it ends before.
 * Reads the log on stdout, as JSON.
 */
async function untilLoaded(service: ChildProcess): Promise<void> {
  let output = '';
  service.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const left = new Set(['serving', 'sidecar connected']);
  for await (const line of createInterface({ input: service.stdout as Readable })) {
    const { msg, url } = JSON.parse(line) as { msg: string; url?: string };
    if (!left.delete(msg)) continue;
    // The answers do not matter.
    if (url !== undefined) for (const edge of DEFERRED_EDGES) await (await fetch(`${url}/${edge}`)).text();
    if (left.size === 0) return;
  }
  throw new Error(`the service did not start: ${output.trim() || `not within ${TIME_LIMIT_MS / 1_000} s`}`);
}

/** That of `npm start` and `npm run demo`: other flags have another cache in the same folder. */
const FOLDER = 'node_modules/.cache/twinkeep/compiled';

/** Fills the cache in `folder`. The service starts in `dataDir`. */
export async function fillCompileCache(dataDir: string, folder: string = FOLDER): Promise<void> {
  const service = spawn(process.execPath, [...flags, 'src/cli/main.ts', 'serve'], {
    cwd: resolve(import.meta.dirname, '..'),
    env: {
      ...{ PATH: process.env.PATH, NODE_COMPILE_CACHE: folder },
      ...{ DATA_DIR: dataDir, HOST: '127.0.0.1', PORT: '0', MQTT_PORT: '0' },
      ...{ SIDECAR: 'embedded', SIDECAR_ADDRESS: '127.0.0.1:0', LOG_FORMAT: 'json', LOG_LEVEL: 'info' },
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(service, 'exit');
  const limit = setTimeout(() => service.kill('SIGKILL'), TIME_LIMIT_MS);
  try {
    await untilLoaded(service);
  } finally {
    service.kill();
    await ended;
    clearTimeout(limit);
  }
}

// A package that is being packed or published contains no cache.
if (import.meta.main && !['pack', 'publish'].includes(env.npm_command ?? '')) {
  let dataDir: string | null = null;
  try {
    dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-compile-'));
    await fillCompileCache(dataDir);
  } catch (error) {
    // The service needs no cache, so that the installation goes on.
    console.warn(`the compile cache was not filled: ${error instanceof Error ? error.message : error}`);
  } finally {
    if (dataDir !== null) rmSync(dataDir, { recursive: true, force: true });
  }
}

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { env } from 'node:process';
import packageJson from '../package.json' with { type: 'json' };

// Starts the service once, because Node.js writes its cache of compiled modules (src/cli/main.ts) when a process ends.

const TIME_LIMIT_MS = 60_000;

/** The flags of `npm start`: V8 uses cached code only with the flags that it was compiled with. */
const flags = packageJson.scripts.start.match(/--\S+/g) ?? [];

/** Resolves when the service serves, and rejects when it ends before. */
async function untilServing(service: ChildProcess): Promise<void> {
  let output = '';
  service.stderr?.setEncoding('utf8');
  for await (const text of service.stderr ?? []) {
    output += text;
    if (output.includes('Console:')) return;
  }
  throw new Error(`the service did not start: ${output.trim() || `no output within ${TIME_LIMIT_MS / 1_000} s`}`);
}

/** That of `npm start` and `npm run demo`: other flags have another cache in the same folder. */
const FOLDER = 'node_modules/.cache/twinkeep/compiled';

/** Fills the cache in `folder`. The service starts in `dataDir`. */
export async function fillCompileCache(dataDir: string, folder: string = FOLDER): Promise<void> {
  const service = spawn(process.execPath, [...flags, 'src/cli/main.ts', 'serve'], {
    cwd: resolve(import.meta.dirname, '..'),
    env: {
      ...{ PATH: process.env.PATH, NODE_COMPILE_CACHE: folder },
      ...{ DATA_DIR: dataDir, HOST: '127.0.0.1', PORT: '0', MQTT_PORT: '0', SIDECAR: 'off' },
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(service, 'exit');
  const limit = setTimeout(() => service.kill('SIGKILL'), TIME_LIMIT_MS);
  try {
    await untilServing(service);
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

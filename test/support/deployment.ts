import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, inject } from 'vitest';
import { copyPglite } from './pglite.ts';
import { freshDatabase } from './store.ts';

/** What services on one database share, one after another or side by side; each gets ports of its own. */
export interface Deployment {
  name: 'PGlite' | 'PostgreSQL';
  env: Record<string, string>;
  /** Null for PGlite. */
  databaseUrl: string | null;
  remove(): Promise<void>;
}

const privateJwk = (): string => JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }));

/** Nobody is held back: the tests that use a deployment work it hard. */
const common = {
  PORT: '0',
  MQTT_PORT: '0',
  SIDECAR: 'off',
  LOG_LEVEL: 'silent',
  RATE_LIMITS: 'free=0',
  DEVICE_RATE: '1000/1000',
};

/** On a migrated embedded database of its own. */
export async function onPglite(): Promise<Deployment> {
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-test-'));
  copyPglite(inject('pgliteTemplate'), dataDir);
  return {
    name: 'PGlite',
    env: { ...common, DATA_DIR: dataDir },
    databaseUrl: null,
    remove: async () => rmSync(dataDir, { recursive: true, force: true }),
  };
}

/** On a migrated PostgreSQL database of its own, with the three keys that it takes; null where there is no PostgreSQL. */
export async function onPostgres(): Promise<Deployment | null> {
  const server = inject('postgresUrl');
  if (server === null) return null;
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-test-'));
  const { url, drop } = await freshDatabase(server);
  return {
    name: 'PostgreSQL',
    env: {
      ...common,
      DATA_DIR: dataDir,
      DATABASE_URL: url,
      MASTER_KEY: randomBytes(32).toString('base64'),
      TOKEN_SIGNING_KEY: privateJwk(),
      DEVICE_SIGNING_KEY: privateJwk(),
    },
    databaseUrl: url,
    async remove() {
      await drop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Of a test in which services start, one after another maybe. */
const PATIENCE_MS = 60_000;

/** Runs the suite on the embedded database and, where it is installed, on PostgreSQL. `deployment()` is there from `beforeAll` on. */
export function eachDeployment(title: string, suite: (deployment: () => Deployment) => void): void {
  const kinds = inject('postgresUrl') === null ? [onPglite] : [onPglite, onPostgres];
  for (const make of kinds) {
    describe(`${title} (${make === onPglite ? 'PGlite' : 'PostgreSQL'})`, { timeout: PATIENCE_MS }, () => {
      let made: Deployment | null = null;
      beforeAll(async () => {
        made = await make();
      });
      afterAll(() => made?.remove());
      suite(() => {
        if (made === null) throw new Error('the deployment is made in beforeAll');
        return made;
      });
    });
  }
}

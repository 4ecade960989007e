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
export async function makePgliteDeployment(): Promise<Deployment> {
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-test-'));
  copyPglite(inject('pgliteTemplate'), dataDir);
  return {
    name: 'PGlite',
    env: { ...common, DATA_DIR: dataDir },
    databaseUrl: null,
    remove: async () => rmSync(dataDir, { recursive: true, force: true }),
  };
}

/**
 * On a PostgreSQL database of its own, migrated unless `empty`, with the three keys that it takes; null where there is no
 * PostgreSQL.
 */
export async function makePostgresDeployment(
  empty = false,
  server = inject('postgresUrl'),
): Promise<Deployment | null> {
  if (server === null) return null;
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-test-'));
  const { url, drop } = await freshDatabase(server, empty);
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

/** What a suite has from `eachDeployment`. */
export interface Deployed {
  /** There from `beforeAll` on. */
  (): Deployment;
  /**
   * The part of these cases that is this store's: each case is tried on one of the stores, as what it tries is done by
   * code that all stores share. `EVERY_CASE=1` tries each on all of them.
   */
  share<T>(cases: readonly T[]): T[];
}

/** Runs the suite on the embedded database and, where it is installed, on PostgreSQL. */
export function eachDeployment(title: string, suite: (deployment: Deployed) => void): void {
  const kinds =
    inject('postgresUrl') === null ? [makePgliteDeployment] : [makePgliteDeployment, makePostgresDeployment];
  const shares = process.env.EVERY_CASE === '1' ? 1 : kinds.length;
  for (const [place, make] of kinds.entries()) {
    describe(`${title} (${make === makePgliteDeployment ? 'PGlite' : 'PostgreSQL'})`, () => {
      let made: Deployment | null = null;
      beforeAll(async () => {
        made = await make();
      });
      afterAll(() => made?.remove());
      const deployment = (): Deployment => {
        if (made === null) throw new Error('the deployment is made in beforeAll');
        return made;
      };
      const share = <T>(cases: readonly T[]): T[] => cases.filter((_, n) => n % shares === place % shares);
      suite(Object.assign(deployment, { share }));
    });
  }
}

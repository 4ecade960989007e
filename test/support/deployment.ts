import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, inject } from 'vitest';
import { copyPglite } from './pglite.ts';
import { freshDatabase } from './store.ts';

/** Environment of services that share a database, one after another or at the same time; each has its own ports. */
export interface Deployment {
  name: 'PGlite' | 'PostgreSQL';
  env: Record<string, string>;
  /** Null for PGlite. */
  databaseUrl: string | null;
  remove(): Promise<void>;
}

const privateJwk = (): string => JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }));

/** No rate limits that matter: tests of a deployment generate much load. */
const common = {
  PORT: '0',
  MQTT_PORT: '0',
  SIDECAR: 'off',
  LOG_LEVEL: 'silent',
  RATE_LIMITS: 'free=0',
  DEVICE_RATE: '1000/1000',
};

/** On a new migrated embedded database. */
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
 * On a new PostgreSQL database, migrated unless `empty`, with the three keys that are required; null without
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

/** Argument of a suite in `eachDeployment`. */
export interface Deployed {
  /** Available from `beforeAll` on. */
  (): Deployment;
  /**
   * The cases of this store's share: each case runs on only one of the stores, because the tested code is shared by all
   * stores. `EVERY_CASE=1` runs each case on all of them.
   */
  share<T>(cases: readonly T[]): T[];
}

/**
 * On a new migrated database: PostgreSQL if it is installed, because a service on the embedded database needs two more
 * seconds of processor time for its start. For a promise that does not depend on how the store works.
 */
export const makeDeployment = async (): Promise<Deployment> =>
  (await makePostgresDeployment()) ?? (await makePgliteDeployment());

type MakeDeployment = () => Promise<Deployment | null>;

/** Runs the suite on the embedded database and, if it is installed, on PostgreSQL. */
export function eachDeployment(title: string, suite: (deployment: Deployed) => void): void {
  const kinds = installed();
  const shares = process.env.EVERY_CASE === '1' ? 1 : kinds.length;
  for (const [place, make] of kinds.entries()) {
    const share = <T>(cases: readonly T[]): T[] => cases.filter((_, n) => n % shares === place % shares);
    onDeployment(title, make, (deployment) => suite(Object.assign(deployment, { share })));
  }
}

/**
 * Runs the suite on a database of `makeDeployment`. What the store does for it is tested on each store by `eachStore`;
 * `EVERY_CASE=1` runs the suite on each, too.
 */
export function oneDeployment(title: string, suite: (deployment: () => Deployment) => void): void {
  const kinds = process.env.EVERY_CASE === '1' ? installed() : installed().slice(-1);
  for (const make of kinds) onDeployment(title, make, suite);
}

const installed = (): MakeDeployment[] =>
  inject('postgresUrl') === null ? [makePgliteDeployment] : [makePgliteDeployment, makePostgresDeployment];

function onDeployment(title: string, make: MakeDeployment, suite: (deployment: () => Deployment) => void): void {
  describe(`${title} (${make === makePgliteDeployment ? 'PGlite' : 'PostgreSQL'})`, () => {
    let deployed: Deployment | null = null;
    beforeAll(async () => {
      deployed = await make();
    });
    afterAll(() => deployed?.remove());
    suite(() => {
      if (deployed === null) throw new Error('the deployment is created in beforeAll');
      return deployed;
    });
  });
}

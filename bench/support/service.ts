import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StartOptions } from '../../src/main.ts';
import { type Child, startChild } from './child.ts';
import { freePort } from './postgres.ts';

/** Environment of the services of one benchmark: a shared database and keys, separate ports. */
export interface Deployment {
  env: Record<string, string>;
  /** Removes the deployment's files. */
  remove(): void;
}

/** A service in a separate process. */
export interface RunningService {
  port: number;
  mqttPort: number;
  child: Child;
  /** Resolves when the service is the active process and serves. */
  active: Promise<void>;
  /** Drains and ends the service; a profile is written then. */
  stop(): Promise<void>;
}

const privateJwk = (): string => JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }));

/** Without a `databaseUrl` the service uses an embedded database in the deployment's folder. */
export function makeDeployment(databaseUrl: string | null): Deployment {
  const folder = mkdtempSync(join(tmpdir(), 'bench-service-'));
  return {
    env: {
      ...(databaseUrl !== null && { DATABASE_URL: databaseUrl }),
      DATA_DIR: folder,
      MASTER_KEY: randomBytes(32).toString('base64'),
      TOKEN_SIGNING_KEY: privateJwk(),
      DEVICE_SIGNING_KEY: privateJwk(),
      HOST: '127.0.0.1',
      LOG_LEVEL: 'error',
      LOG_FORMAT: 'json',
      SIDECAR: 'off',
      // The load exceeds the limits of one device or tenant.
      DEVICE_RATE: '1000000/1000000',
      RATE_LIMITS: 'free=0',
      MQTT_MAX_CONNECTIONS: '20000',
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** The V8 flags of a service that `npm start` starts; floors have them too, and loads through `startLoad`. */
export const V8_FLAGS: readonly string[] = ['--max-semi-space-size=64', '--no-allocation-site-pretenuring'];

/**
 * Starts a load process. It shares the processors with what is measured, and with V8's default young generation it uses
 * a fifth more processor time.
 */
export const startLoad = (file: URL): Child => startChild(file, { node: [...V8_FLAGS] });

/** Starts the service as `npm start` does: only the load limits are changed for the benchmark. */
export async function startService(
  deployment: Deployment,
  options: { profile?: string | null; limits?: StartOptions['limits'] } = {},
): Promise<RunningService> {
  const port = await freePort();
  const mqttPort = await freePort();
  const { profile, limits = {} } = options;
  const child = startChild(new URL('./service-process.ts', import.meta.url), {
    env: {
      ...deployment.env,
      NODE_ENV: 'production',
      BENCH_LIMITS: JSON.stringify(limits),
      PORT: `${port}`,
      MQTT_PORT: `${mqttPort}`,
    },
    node: [
      ...V8_FLAGS,
      ...(profile ? ['--cpu-prof', `--cpu-prof-dir=${profile}`, '--cpu-prof-name=service.cpuprofile'] : []),
    ],
  });
  await child.receive('listening');
  return { port, mqttPort, child, active: child.receive('active'), stop: () => child.end() };
}

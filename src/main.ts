import type { Config } from './config.ts';
import { closeEmbedded, startEmbedded } from './main/embedded-database.ts';
import { newId } from './main/ids.ts';
import type { StartOptions } from './main/start-options.ts';
import { importTokenKey, signToken } from './services/tokens.ts';

export type { StartOptions };

/** A started service. */
export interface Service {
  /** Base URL of HTTP, without a trailing slash. */
  url: string;
  /** Null while the process is a standby. */
  mqttUrl(): string | null;
  /** Resolves when this process is the active one and serves requests. */
  active: Promise<void>;
  /** Rejects new requests, finishes those in flight, commits, closes. */
  stop(): Promise<void>;
}

/**
 * Starts in this order: active lock → store → recovery after a crash → listeners. With `DATABASE_URL` HTTP listens from
 * the start and answers `standby` until this process is the active one; on the embedded store a second process throws
 * `OwnedByAnother`.
 */
export async function start(config: Config, options: StartOptions): Promise<Service> {
  const starting = config.databaseUrl === null ? startEmbedded(config) : null;
  // Loading the modules is half of a start; meanwhile the database starts in its thread.
  const [{ ServiceProcess }, embedded] = await Promise.all([import('./main/service-process.ts'), starting]).catch(
    async (error) => {
      await starting?.then(closeEmbedded, () => {});
      throw error;
    },
  );
  const service = new ServiceProcess(config, options, embedded);
  await service.start();
  return service;
}

/** Signs an internal token with the service's key, without a running service. */
export async function issueToken(
  pair: Config['keys']['tokenSigning'],
  token: { sub: string; email?: string; scope?: string; ttlS?: number },
): Promise<string> {
  return signToken(
    await importTokenKey(pair.privateKey.export({ format: 'jwk' })),
    { ...token, jti: newId() },
    Date.now(),
  );
}

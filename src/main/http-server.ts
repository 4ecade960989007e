import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { type Config, httpUrl } from '../config.ts';
import { handleProtocolErrors, serverLimits } from '../edges/rest/server.ts';
import { withCrossOrigin } from '../edges/shared/cross-origin.ts';
import { refusingSeveralHosts } from '../edges/shared/host-header.ts';
import { encryptedRequests, withStrictTransportSecurity } from '../edges/shared/transport-security.ts';
import { newId } from './ids.ts';

/** Creates the HTTP server, with TLS if it is configured. It does not listen. */
export function createHttpServer(config: HttpConfig, requestListener: RequestListener): Server {
  const { tls } = config;
  const { corsOrigins } = config;
  const shared = corsOrigins.length === 0 ? requestListener : withCrossOrigin(requestListener, corsOrigins);
  const checked = refusingSeveralHosts(shared, newId);
  const listener = mayBeEncrypted(config) ? secured(config, checked) : checked;
  const server =
    tls === null
      ? createServer(serverLimits, listener)
      : createTlsServer({ ...serverLimits, ...tls, minVersion: 'TLSv1.2' }, listener);
  handleProtocolErrors(server, newId);
  return server;
}

type HttpConfig = Pick<Config, 'corsOrigins' | 'hstsMaxAgeS' | 'tls' | 'trustedProxies'>;

const mayBeEncrypted = ({ tls, trustedProxies }: HttpConfig): boolean => tls !== null || trustedProxies.length > 0;

const secured = ({ trustedProxies, hstsMaxAgeS: maxAgeS }: HttpConfig, listener: RequestListener): RequestListener =>
  withStrictTransportSecurity(listener, { isEncrypted: encryptedRequests(trustedProxies), maxAgeS });

/** Resolves when the server listens on the configured address; rejects with the error of the system. */
export function listen(server: TcpServer, { host, port }: Pick<Config, 'host' | 'port'>): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Opens and closes each configured port; rejects with the error of the system for one that cannot be opened. */
export async function checkPorts({
  host,
  port,
  mqttPort,
  mqttTlsPort,
}: Pick<Config, 'host' | 'port' | 'mqttPort' | 'mqttTlsPort'>): Promise<void> {
  for (const one of [port, mqttPort, mqttTlsPort]) {
    if (one === null || one === 0) continue;
    const server = createTcpServer();
    await listen(server, { host, port: one });
    await new Promise((resolve) => server.close(resolve));
  }
}

/** Base URL of a server that listens, without a trailing slash. */
export const urlOf = (config: Config, server: Server): string =>
  httpUrl(config, (server.address() as AddressInfo).port);

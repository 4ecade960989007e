import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
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

/** Base URL of a server that listens, without a trailing slash. */
export const urlOf = (config: Config, server: Server): string =>
  httpUrl(config, (server.address() as AddressInfo).port);

import type { RequestListener } from 'node:http';
import type { Config } from '../config.ts';
import type { GraphqlEdge } from '../edges/graphql/edge.ts';
import type { McpEdge } from '../edges/mcp/edge.ts';
import { type MqttEdge, openMqtt } from '../edges/mqtt/edge.ts';
import type { RouteConnection } from '../edges/mqtt/mqtt-listeners.ts';
import { makeMqttMeter } from '../edges/mqtt/mqtt-metrics.ts';
import { userAuthentication } from '../edges/mqtt/user-session.ts';
import { makeRestListener } from '../edges/rest/listener.ts';
import { publicResources } from '../edges/rest/public-resources.ts';
import { routes } from '../edges/rest/routes.ts';
import type { BuiltFiles } from '../edges/shared/built-files.ts';
import { ConnectionQuota } from '../edges/shared/live/connection-quota.ts';
import { metricsTokenCheck } from '../edges/shared/metrics-access.ts';
import { protectedResource } from '../edges/shared/protected-resource.ts';
import { referencePage } from '../edges/shared/reference-pages.ts';
import { encryptedRequests } from '../edges/shared/transport-security.ts';
import { actorStream } from '../edges/websocket/actor-stream.ts';
import { WebSocketEdge } from '../edges/websocket/edge.ts';
import { stateStream } from '../edges/websocket/state-stream.ts';
import { publicJwksOf } from '../services/tokens.ts';
import { asyncApiDocument } from './asyncapi-document.ts';
import { consoleRoutes, referenceFiles } from './built-pages.ts';
import type { Core } from './compose-core.ts';
import type { RequestHandling } from './compose-request-handling.ts';
import type { ComposedServices } from './compose-services.ts';
import { DeferredEdge } from './deferred-edge.ts';
import { deviceSigningKeys } from './device-signing-keys.ts';

/** The parts from which the edges are composed. */
export interface EdgeParts {
  config: Config;
  core: Core;
  composed: ComposedServices;
  requests: RequestHandling;
  /** True from SIGTERM on: new requests are refused, except health checks. */
  draining(): boolean;
}

/** The edges that share the HTTP server. */
export interface HttpEdges {
  sockets: WebSocketEdge;
  mcp: DeferredEdge<McpEdge>;
  graphql: DeferredEdge<GraphqlEdge>;
  /** Serves REST, and the other edges below their paths. */
  listener: RequestListener;
}

export function composeHttpEdges(parts: EdgeParts): HttpEdges {
  const { config, core, composed, requests, draining } = parts;
  const { newId, log, limits, metrics } = core;
  const { services } = composed;
  const { identity, authenticator, rateLimiter, addressOf, perform, publicUrl } = requests;
  const observe = metrics.recordRequest;
  const deferred = { newId, log, observe };
  const quota = new ConnectionQuota();
  const sockets = new WebSocketEdge({
    ...{ services, identity, rateLimiter, addressOf, quota },
    streams: [stateStream(services), actorStream(services)],
  });
  const mcp = new DeferredEdge({
    ...deferred,
    route: '/mcp',
    open: async () => {
      const { McpEdge } = await import('../edges/mcp/edge.ts');
      return new McpEdge({
        ...{ services, perform, identity, rateLimiter, addressOf, publicUrl, log, observe },
        host: config.host,
        ...(limits.mcp && { limits: limits.mcp }),
      });
    },
  });
  const reference = referenceFiles();
  const graphql = new DeferredEdge({
    ...deferred,
    route: '/graphql',
    open: async () => {
      const { makeGraphql } = await import('../edges/graphql/edge.ts');
      return makeGraphql({
        ...{ services, identity, authenticator, rateLimiter, addressOf, perform, draining, quota, observe },
        production: config.production,
        explorer: () => referencePage(reference, 'graphql'),
      });
    },
  });
  const listener = composeListener(parts, reference, {
    mcp: mcp.listener,
    sse: mcp.listener,
    graphql: graphql.listener,
  });
  return { sockets, mcp, graphql, listener };
}

/** The listener of REST and the console, and of the other edges in `mounts` by their first path segment. */
function composeListener(
  parts: EdgeParts,
  reference: BuiltFiles,
  mounts: Record<string, RequestListener>,
): RequestListener {
  const { core, composed, requests, draining } = parts;
  const { log, newId, metrics, tracing } = core;
  const { authenticator, perform, rateLimiter, addressOf, publicUrl, browserSignIn } = requests;
  const { settings } = composed.services;
  return makeRestListener({
    ...{ routes, authenticator, perform, rateLimiter, addressOf, publicUrl, newId, log, draining },
    resources: composePublicResources(parts, reference),
    observe: metrics.recordRequest,
    ...(tracing && { trace: tracing.traceRequest }),
    mounts,
    consoleRoutes: consoleRoutes({
      ...{ rateLimiter, addressOf, log, provider: browserSignIn !== null },
      prefix: () => new URL(settings.apiBaseUrl).pathname.replace(/\/v1$/, ''),
    }),
  });
}

function composePublicResources({ config, core, composed, requests }: EdgeParts, reference: BuiltFiles) {
  const { services, tokenKey } = composed;
  const { authenticator, browserSignIn, publicUrl } = requests;
  return publicResources({
    metrics: core.metrics,
    mayReadMetrics: config.metricsToken === null ? null : metricsTokenCheck(config.metricsToken),
    publicKeys: publicJwksOf(tokenKey),
    events: asyncApiDocument(services.settings),
    tiers: Object.keys(config.rateLimits),
    protectedResource: () => protectedResource(publicUrl(), config.oidc?.issuer ?? null),
    signIn: {
      services,
      cookies: authenticator.cookies,
      provider: browserSignIn,
      defaultReturnTo: '/console',
      log: core.log,
    },
    reference,
  });
}

/** Opens the MQTT edge on the configured ports; `route` decides which node serves a connection. */
export function openMqttEdge(
  { config, core, composed, requests }: EdgeParts,
  route: RouteConnection | null,
): Promise<MqttEdge> {
  const { newId, lease, log, limits, metrics, runtime } = core;
  return openMqtt({
    services: composed.services,
    settings: {
      host: config.host,
      port: config.mqttPort,
      tls: config.mqttTlsPort === null || config.tls === null ? null : { ...config.tls, port: config.mqttTlsPort },
      maxConnections: config.mqttMaxConnections,
      trustedProxies: config.trustedProxies,
      deviceRate: config.deviceRate,
      usersNeedTls: config.mqttUsersNeedTls,
    },
    signingKeys: deviceSigningKeys(config.keys),
    watches: (deviceId) => runtime.watches.forDevice(deviceId),
    authenticateUser: userAuthentication(requests.identity, newId),
    addressOf: requests.addressOf,
    isEncrypted: encryptedRequests(config.trustedProxies),
    ...{ lease, log },
    meter: makeMqttMeter(metrics),
    ...(route && { route }),
    ...(limits.mqtt && { limits: limits.mqtt }),
  });
}

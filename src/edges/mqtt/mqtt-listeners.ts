import type { IncomingMessage } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createWebSocketStream } from 'ws';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { guardWrites } from '../../domain/write-guard.ts';
import { trustedAddresses } from '../shared/client-address.ts';
import type { MqttClient } from '../shared/mqtt-client.ts';
import type { IsEncrypted } from '../shared/transport-security.ts';
import {
  CREDENTIAL_RECEIVED,
  type PendingSignIn,
  SIGNED_IN,
  TOO_MANY_UNAUTHENTICATED,
  UnauthenticatedConnections,
} from '../shared/unauthenticated-connections.ts';
import { makeWebSocketServer, refuseUpgrade } from '../shared/upgrade.ts';
import type { MqttConnection } from './mqtt-connection.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import { createTlsListener, withProxyHeader } from './proxied-connections.ts';

/** Takes over a connection; `null` if the limit of connections is reached. */
export type AcceptConnection = (source: Duplex, client: MqttClient) => MqttConnection | null;

/**
 * Decides where a connection is served, and calls `accept` if that is here. Resolves when `accept` was called, or the
 * connection is with another node or has ended; never rejects.
 */
export type RouteConnection = (source: Duplex, client: MqttClient, accept: () => void) => Promise<void>;

const KEEP_ALIVE_MS = 60_000;
/** Longest WebSocket message: it may contain several packets, each with its own limit. */
const WS_MESSAGE_BYTES = 262_144;
/** Allowance for WebSocket framing around the one packet that may arrive before the CONNACK. */
const WS_FRAMING_BYTES = 64;
const SUBPROTOCOL = 'mqtt';

export interface ListenerSettings {
  host: string;
  /** Null: no listener without TLS. */
  port: number | null;
  tls: { port: number; cert: string | Buffer; key: string | Buffer } | null;
  maxConnections: number;
  /** Addresses or ranges of balancers that may send a PROXY protocol header; none by default. */
  trustedProxies?: readonly string[];
}

export interface MqttListeners {
  /** The bound ports; they differ from the configured ones if those are 0. Null for a listener that is not configured. */
  port: number | null;
  tlsPort: number | null;
  /** Handles an HTTP upgrade request for the path `/mqtt`. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  sizes(): CollectionSizes;
  /** Stops accepting connections. */
  close(): void;
}

/**
 * Opens the TCP and TLS listeners and handles WebSocket upgrades. All connections are treated alike from the first
 * byte.
 */
export async function openListeners(
  settings: ListenerSettings,
  limits: MqttLimits,
  accept: AcceptConnection,
  {
    addressOf,
    isEncrypted,
    newId,
    lease,
    route,
  }: {
    addressOf(request: IncomingMessage): string;
    isEncrypted: IsEncrypted;
    newId(): Uuid;
    lease: Lease;
    /** Null: every connection is served here. */
    route: RouteConnection | null;
  },
): Promise<MqttListeners> {
  const mostUnauthenticated = Math.ceil(settings.maxConnections * limits.unauthenticatedShare);
  const unauthenticated = new UnauthenticatedConnections({
    perNetwork: limits.unauthenticatedPerNetwork,
    total: mostUnauthenticated,
    silentMs: limits.silentMs,
  });
  const take = (socket: Socket, client: MqttClient, pending: PendingSignIn) => {
    follow(socket, pending);
    guardWrites(socket, () => lease.valid());
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    let isHere = false;
    const acceptHere = () => {
      isHere = true;
      if (accept(socket, client) === null) socket.destroy();
    };
    if (route === null) acceptHere();
    else void route(socket, client, acceptHere).then(() => isHere || pending.signedIn());
  };
  const { trustedProxies = [] } = settings;
  const proxies =
    trustedProxies.length === 0 ? null : { isTrusted: trustedAddresses(trustedProxies), timeoutMs: limits.connectMs };
  /** The address of a balancer is not that of its clients. */
  const admit = (socket: Socket, address: string) => {
    const pending = unauthenticated.admit(socket, proxies?.isTrusted(address) ? null : address);
    if (pending === null) socket.destroy();
    return pending;
  };
  const servers: Server[] = [];
  const open = async (server: Server, port: number): Promise<number> => {
    server.maxConnections = settings.maxConnections + mostUnauthenticated;
    const bound = await listen(server, port, settings.host).catch((error: unknown) => {
      for (const other of servers) other.close();
      throw error;
    });
    servers.push(server);
    return bound;
  };
  const openPlain = (port: number) =>
    open(
      createServer((socket) => {
        withProxyHeader(socket, proxies, (address, header) => {
          const pending = admit(socket, address);
          if (pending === null) return;
          take(socket, { address, transport: 'tcp', encrypted: header?.encrypted === true }, pending);
        });
      }),
      port,
    );
  const openTls = ({ port, ...certificate }: NonNullable<ListenerSettings['tls']>) =>
    open(
      createTlsListener({ ...certificate, handshakeMs: limits.connectMs, proxies, admit }, (socket, from) => {
        const { pending, ...client } = from;
        take(socket, { ...client, transport: 'tls', encrypted: true }, pending);
      }),
      port,
    );
  const port = settings.port === null ? null : await openPlain(settings.port);
  const tlsPort = settings.tls === null ? null : await openTls(settings.tls);
  const webSockets = makeWebSocketServer(
    {
      maxPayload: WS_MESSAGE_BYTES,
      handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
    },
    newId,
  );
  let isOpen = true;
  return {
    port,
    tlsPort,
    sizes: () => unauthenticated.sizes(),
    upgrade(request, socket, head) {
      if (!isOpen) return refuseUpgrade(request, socket, SHUTTING_DOWN, { newId });
      if (!offers(request)) return refuseUpgrade(request, socket, SUBPROTOCOL_MISSING, { newId });
      const client: MqttClient = {
        ...{ address: addressOf(request), transport: 'websocket', encrypted: isEncrypted(request) },
      };
      const pending = unauthenticated.admit(socket, proxies?.isTrusted(client.address) ? null : client.address);
      if (pending === null) return refuseUpgrade(request, socket, TOO_MANY_UNAUTHENTICATED, { newId });
      webSockets.handleUpgrade(request, socket, head, (webSocket) => {
        // Only binary frames carry MQTT [MQTT-6.0.0-1].
        webSocket.on('message', (_data, isBinary) => isBinary || webSocket.terminate());
        const stream = createWebSocketStream(webSocket);
        follow(stream, pending);
        const peer: WebSocketPeer = { connection: null, isElsewhere: false, terminate: () => webSocket.terminate() };
        const acceptHere = () => {
          peer.connection = accept(stream, client);
          if (peer.connection === null) webSocket.terminate();
        };
        if (route === null) acceptHere();
        else {
          void route(stream, client, acceptHere).then(() => {
            markElsewhere(peer);
            if (peer.isElsewhere) pending.signedIn();
          });
        }
        // A WebSocket message is in memory before the size of its first packet can be checked.
        limitBytesBeforeConnack(peer, socket, limits.maxPacketBytesBeforeConnack + WS_FRAMING_BYTES);
      });
    },
    close() {
      isOpen = false;
      for (const server of servers) server.close();
    },
  };
}

function follow(source: Duplex, pending: PendingSignIn): void {
  source.once(CREDENTIAL_RECEIVED, pending.received);
  source.once(SIGNED_IN, pending.signedIn);
}

function offers(request: IncomingMessage): boolean {
  const offered = request.headers['sec-websocket-protocol'] ?? '';
  return offered.split(',').some((name) => name.trim() === SUBPROTOCOL);
}

const SHUTTING_DOWN: Refusal = { code: 'OVERLOADED', detail: 'This process is shutting down.', retryAfterS: 1 };
const SUBPROTOCOL_MISSING: Refusal = {
  code: 'VALIDATION_FAILED',
  detail: `Sec-WebSocket-Protocol must offer ${SUBPROTOCOL}.`,
};

/** A WebSocket before its CONNACK. */
interface WebSocketPeer {
  /** Null until the session layer has accepted it. */
  connection: MqttConnection | null;
  /** Whether another node serves it, and limits its packets. */
  isElsewhere: boolean;
  terminate(): void;
}

function markElsewhere(peer: WebSocketPeer): void {
  peer.isElsewhere = peer.connection === null;
}

function limitBytesBeforeConnack(peer: WebSocketPeer, socket: Duplex, limit: number): void {
  let bytes = 0;
  const count = (chunk: Buffer) => {
    const { connection } = peer;
    if (peer.isElsewhere || connection?.signedIn) return void socket.off('data', count);
    bytes += chunk.length;
    if (bytes <= limit) return;
    if (connection === null) peer.terminate();
    else connection.terminate('oversized');
  };
  socket.on('data', count);
}

function listen(server: Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host }, () => {
      server.off('error', reject);
      const bound = server.address();
      resolve(typeof bound === 'object' && bound !== null ? bound.port : port);
    });
  });
}

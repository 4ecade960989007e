import type { IncomingMessage } from 'node:http';
import { createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createWebSocketStream } from 'ws';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { guardWrites } from '../../domain/write-guard.ts';
import { trustedAddresses } from '../shared/client-address.ts';
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
import type { Transport } from './mqtt-meter.ts';
import { createTlsListener, withClientAddress } from './proxied-connections.ts';

/** Takes over a connection; `null` if the limit of connections is reached. */
export type AcceptConnection = (source: Duplex, address: string, transport: Transport) => MqttConnection | null;

/**
 * Decides where a connection is served, and calls `accept` if that is here. Resolves when `accept` was called, or the
 * connection is with another node or has ended; never rejects.
 */
export type RouteConnection = (
  source: Duplex,
  address: string,
  transport: Transport,
  accept: () => void,
) => Promise<void>;

const KEEP_ALIVE_MS = 60_000;
/** Longest WebSocket message: it may contain several packets, each with its own limit. */
const WS_MESSAGE_BYTES = 262_144;
/** Allowance for WebSocket framing around the one packet that may arrive before the CONNACK. */
const WS_FRAMING_BYTES = 64;
const SUBPROTOCOL = 'mqtt';

export interface ListenerSettings {
  host: string;
  port: number;
  tls: { port: number; cert: string | Buffer; key: string | Buffer } | null;
  maxConnections: number;
  /** Addresses or ranges of balancers that may send a PROXY protocol header; none by default. */
  trustedProxies?: readonly string[];
}

export interface MqttListeners {
  /** The bound ports; they differ from the configured ones if those are 0. */
  port: number;
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
    newId,
    lease,
    route,
  }: {
    addressOf(request: IncomingMessage): string;
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
  const take = (socket: Socket, address: string, transport: Transport, pending: PendingSignIn) => {
    follow(socket, pending);
    guardWrites(socket, () => lease.valid());
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    let isHere = false;
    const acceptHere = () => {
      isHere = true;
      if (accept(socket, address, transport) === null) socket.destroy();
    };
    if (route === null) acceptHere();
    else void route(socket, address, transport, acceptHere).then(() => isHere || pending.signedIn());
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
  const plain = createServer((socket) => {
    withClientAddress(socket, proxies, (address) => {
      const pending = admit(socket, address);
      if (pending !== null) take(socket, address, 'tcp', pending);
    });
  });
  const servers = [plain];
  const mostConnections = settings.maxConnections + mostUnauthenticated;
  plain.maxConnections = mostConnections;
  const port = await listen(plain, settings.port, settings.host);
  let tlsPort: number | null = null;
  if (settings.tls !== null) {
    const { port: tlsPortSetting, ...certificate } = settings.tls;
    const tls = createTlsListener({ ...certificate, handshakeMs: limits.connectMs, proxies, admit }, (socket, from) =>
      take(socket, from.address, 'tls', from.pending),
    );
    tls.maxConnections = mostConnections;
    tlsPort = await listen(tls, tlsPortSetting, settings.host).catch((error: unknown) => {
      plain.close();
      throw error;
    });
    servers.push(tls);
  }
  const webSockets = makeWebSocketServer(
    {
      maxPayload: WS_MESSAGE_BYTES,
      handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
    },
    newId,
  );
  let open = true;
  return {
    port,
    tlsPort,
    sizes: () => unauthenticated.sizes(),
    upgrade(request, socket, head) {
      if (!open) return refuseUpgrade(request, socket, SHUTTING_DOWN, { newId });
      if (!offers(request)) return refuseUpgrade(request, socket, SUBPROTOCOL_MISSING, { newId });
      const address = addressOf(request);
      const pending = unauthenticated.admit(socket, proxies?.isTrusted(address) ? null : address);
      if (pending === null) return refuseUpgrade(request, socket, TOO_MANY_UNAUTHENTICATED, { newId });
      webSockets.handleUpgrade(request, socket, head, (webSocket) => {
        // Only binary frames carry MQTT [MQTT-6.0.0-1].
        webSocket.on('message', (_data, isBinary) => isBinary || webSocket.terminate());
        const stream = createWebSocketStream(webSocket);
        follow(stream, pending);
        const peer: WebSocketPeer = { connection: null, isElsewhere: false, terminate: () => webSocket.terminate() };
        const acceptHere = () => {
          peer.connection = accept(stream, address, 'websocket');
          if (peer.connection === null) webSocket.terminate();
        };
        if (route === null) acceptHere();
        else {
          void route(stream, address, 'websocket', acceptHere).then(() => {
            markElsewhere(peer);
            if (peer.isElsewhere) pending.signedIn();
          });
        }
        // A WebSocket message is in memory before the size of its first packet can be checked.
        limitBytesBeforeConnack(peer, socket, limits.maxPacketBytesBeforeConnack + WS_FRAMING_BYTES);
      });
    },
    close() {
      open = false;
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

function listen(server: ReturnType<typeof createServer>, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host }, () => {
      server.off('error', reject);
      const bound = server.address();
      resolve(typeof bound === 'object' && bound !== null ? bound.port : port);
    });
  });
}

import type { IncomingMessage } from 'node:http';
import { createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import { createWebSocketStream } from 'ws';
import { guardWrites } from '../../domain/guard-writes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { normalizeAddress } from '../shared/client-address.ts';
import { makeWebSocketServer, refuseUpgrade } from '../shared/upgrade.ts';
import type { MqttConnection } from './mqtt-connection.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { Transport } from './mqtt-meter.ts';

/** Takes over a connection; `null` where there is no room for it. */
export type AcceptConnection = (source: Duplex, address: string, transport: Transport) => MqttConnection | null;

const KEEP_ALIVE_MS = 60_000;
/** Longest WebSocket message: it may hold several packets, and each is measured by itself. */
const WS_MESSAGE_BYTES = 262_144;
/** HTTP and WebSocket framing around the one packet that may come before the CONNACK. */
const WS_FRAMING_BYTES = 64;
const SUBPROTOCOL = 'mqtt';

export interface ListenerSettings {
  host: string;
  port: number;
  tls: { port: number; cert: string | Buffer; key: string | Buffer } | null;
  maxConnections: number;
}

export interface MqttListeners {
  /** The ports that were bound; they differ from those asked for where 0 was. */
  port: number;
  tlsPort: number | null;
  /** Takes an HTTP upgrade request whose path is `/mqtt`. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Takes no more connections. */
  close(): void;
}

/** The three ways in: TCP, TLS and WebSocket. All are treated alike from their first byte on. */
export async function openListeners(
  settings: ListenerSettings,
  limits: MqttLimits,
  accept: AcceptConnection,
  { addressOf, newId, lease }: { addressOf(request: IncomingMessage): string; newId(): Uuid; lease: Lease },
): Promise<MqttListeners> {
  const take = (transport: Transport) => (socket: Socket) => {
    guardWrites(socket, () => lease.valid());
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    if (accept(socket, normalizeAddress(socket.remoteAddress ?? ''), transport) === null) socket.destroy();
  };
  const plain = createServer(take('tcp'));
  const servers = [plain];
  plain.maxConnections = settings.maxConnections;
  const port = await listen(plain, settings.port, settings.host);
  let tlsPort: number | null = null;
  if (settings.tls !== null) {
    const { port: wanted, cert, key } = settings.tls;
    const secure = createTlsServer({ cert, key, minVersion: 'TLSv1.2', handshakeTimeout: limits.connectMs });
    secure.maxConnections = settings.maxConnections;
    secure.on('secureConnection', take('tls'));
    secure.on('tlsClientError', (_error, socket) => socket.destroy());
    tlsPort = await listen(secure, wanted, settings.host).catch((error: unknown) => {
      plain.close();
      throw error;
    });
    servers.push(secure);
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
    upgrade(request, socket, head) {
      if (!open) return refuseUpgrade(request, socket, SHUTTING_DOWN, { newId });
      if (!offers(request)) return refuseUpgrade(request, socket, SUBPROTOCOL_MISSING, { newId });
      const address = addressOf(request);
      webSockets.handleUpgrade(request, socket, head, (webSocket) => {
        // Only binary frames carry MQTT [MQTT-6.0.0-1].
        webSocket.on('message', (_data, isBinary) => isBinary || webSocket.terminate());
        const wire = accept(createWebSocketStream(webSocket), address, 'websocket');
        if (wire === null) return webSocket.terminate();
        // A WebSocket message is in memory before its first packet can be measured.
        limitBytesBeforeConnack(wire, socket, limits.maxPacketBytesBeforeConnack + WS_FRAMING_BYTES);
      });
    },
    close() {
      open = false;
      for (const server of servers) server.close();
    },
  };
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

function limitBytesBeforeConnack(wire: MqttConnection, socket: Duplex, limit: number): void {
  let bytes = 0;
  const count = (chunk: Buffer) => {
    if (wire.signedIn) return void socket.off('data', count);
    bytes += chunk.length;
    if (bytes > limit) wire.terminate('oversized');
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

import { createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, createServer as createTlsServer, TLSSocket } from 'node:tls';
import type { Milliseconds } from '../../domain/values.ts';
import { normalizeAddress } from '../shared/client-address.ts';
import { readOptionalProxyHeader } from '../shared/read-bytes.ts';

/** The balancers whose PROXY protocol headers are accepted. */
export interface TrustedProxies {
  isTrusted(address: string): boolean;
  /** Time until the first byte, and the rest of a header, have arrived. */
  timeoutMs: Milliseconds;
}

/**
 * Calls `take` with the client's address: of the socket's peer, or, if that is a trusted balancer and sends a PROXY
 * protocol header, the address in it. Waits only for the first byte of a trusted balancer.
 */
export function withClientAddress(
  socket: Socket,
  proxies: TrustedProxies | null,
  take: (address: string, isProxied: boolean) => void,
): void {
  const peer = normalizeAddress(socket.remoteAddress ?? '');
  if (proxies === null || !proxies.isTrusted(peer)) {
    take(peer, false);
    return;
  }
  socket.on('error', () => socket.destroy());
  const timer = setTimeout(() => socket.destroy(), proxies.timeoutMs);
  readOptionalProxyHeader(socket)
    .then((header) => {
      clearTimeout(timer);
      if (socket.destroyed) return;
      if (header === null) socket.destroy();
      else if (header === 'absent') take(peer, false);
      else take(header.source === null ? peer : normalizeAddress(header.source.address), true);
    })
    .catch(() => {
      clearTimeout(timer);
      socket.destroy();
    });
}

interface TlsListenerSettings {
  cert: string | Buffer;
  key: string | Buffer;
  handshakeMs: Milliseconds;
  proxies: TrustedProxies | null;
  /** Called before the handshake; null if the connection is refused, and destroyed. */
  admit(connection: Socket, address: string): SignedIn | null;
}

/** To be called when the client has signed in. */
type SignedIn = () => void;

interface TlsClient {
  address: string;
  signedIn: SignedIn;
}

/** Address and port of the peer: both the connection and its TLS socket have them. */
const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;

/** A listener for TLS connections; a trusted balancer may send a PROXY protocol header before the handshake. */
export function createTlsListener(
  { cert, key, handshakeMs, proxies, admit }: TlsListenerSettings,
  take: (socket: Socket, client: TlsClient) => void,
): Server {
  const tls = createTlsServer({ cert, key, minVersion: 'TLSv1.2', handshakeTimeout: handshakeMs });
  const handshakes = new Map<string, TlsClient>();
  tls.on('connection', (connection) => {
    const address = normalizeAddress(connection.remoteAddress ?? '');
    const signedIn = admit(connection, address);
    if (signedIn === null) return;
    const peer = peerOf(connection);
    handshakes.set(peer, { address, signedIn });
    connection.once('close', () => handshakes.get(peer)?.signedIn === signedIn && handshakes.delete(peer));
  });
  tls.on('secureConnection', (socket) => {
    const client = handshakes.get(peerOf(socket));
    if (client === undefined) socket.destroy();
    else take(socket, client);
  });
  tls.on('tlsClientError', (_error, socket) => socket.destroy());
  if (proxies === null) return tls;
  const secureContext = createSecureContext({ cert, key, minVersion: 'TLSv1.2', sessionIdContext: 'twinkeep mqtt' });
  return createServer((connection) => {
    withClientAddress(connection, proxies, (address, isProxied) => {
      if (!isProxied) return void tls.emit('connection', connection);
      const signedIn = admit(connection, address);
      if (signedIn === null) return;
      const socket = new TLSSocket(connection, { isServer: true, secureContext });
      const timer = setTimeout(() => socket.destroy(), handshakeMs);
      socket.on('error', () => socket.destroy());
      socket.once('close', () => clearTimeout(timer));
      socket.once('secure', () => {
        clearTimeout(timer);
        take(socket, { address, signedIn });
      });
    });
  });
}

import { createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, createServer as createTlsServer, TLSSocket } from 'node:tls';
import type { Milliseconds } from '../../domain/values.ts';
import { MAX_DEVICE_CERTIFICATE_BYTES } from '../../protocol/certificate.ts';
import { normalizeAddress } from '../shared/client-address.ts';
import type { MqttClient } from '../shared/mqtt-client.ts';
import type { ProxyHeader } from '../shared/proxy-protocol.ts';
import { readOptionalProxyHeader } from '../shared/read-bytes.ts';
import type { PendingSignIn } from '../shared/unauthenticated-connections.ts';

/** The balancers whose PROXY protocol headers are accepted. */
export interface TrustedProxies {
  isTrusted(address: string): boolean;
  /** Time until the first byte, and the rest of a header, have arrived. */
  timeoutMs: Milliseconds;
}

/**
 * Calls `take` with the client's address: of the socket's peer, or, if that is a trusted balancer and sends a PROXY
 * protocol header, the address in it; the header is null without one. Waits only for the first byte of a trusted balancer.
 */
export function withProxyHeader(
  socket: Socket,
  proxies: TrustedProxies | null,
  take: (address: string, header: ProxyHeader | null) => void,
): void {
  const peer = normalizeAddress(socket.remoteAddress ?? '');
  if (proxies === null || !proxies.isTrusted(peer)) {
    take(peer, null);
    return;
  }
  socket.on('error', () => socket.destroy());
  const timer = setTimeout(() => socket.destroy(), proxies.timeoutMs);
  readOptionalProxyHeader(socket)
    .then((header) => {
      clearTimeout(timer);
      if (socket.destroyed) return;
      if (header === null) socket.destroy();
      else if (header === 'absent') take(peer, null);
      else take(header.source === null ? peer : normalizeAddress(header.source.address), header);
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
  admit(connection: Socket, address: string): PendingSignIn | null;
}

interface TlsConnection {
  address: string;
  pending: PendingSignIn;
}
type TlsClient = TlsConnection & Pick<MqttClient, 'certificate'>;

/** Clients may present a certificate, which is verified at their sign-in: its issuer is not known to the TLS layer. */
const CLIENT_CERTIFICATES = { requestCert: true, rejectUnauthorized: false } as const;

/** Also of a resumed session, whose ticket has the certificate. One that is too long counts as none. */
function certificateOf(socket: TLSSocket): Pick<MqttClient, 'certificate'> {
  const certificate = socket.getPeerX509Certificate()?.raw;
  return certificate === undefined || certificate.length > MAX_DEVICE_CERTIFICATE_BYTES ? {} : { certificate };
}

/** Addresses and ports of both sides: the connection and its TLS socket have the same. */
const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  [remoteAddress, remotePort, localAddress, localPort].join(' ');

/** A listener for TLS connections; a trusted balancer may send a PROXY protocol header before the handshake. */
export function createTlsListener(
  { cert, key, handshakeMs, proxies, admit }: TlsListenerSettings,
  take: (socket: Socket, client: TlsClient) => void,
): Server {
  const tls = createTlsServer({
    ...{ cert, key, minVersion: 'TLSv1.2', handshakeTimeout: handshakeMs },
    ...CLIENT_CERTIFICATES,
  });
  const handshakes = new Map<string, TlsConnection>();
  tls.on('connection', (connection) => {
    const address = normalizeAddress(connection.remoteAddress ?? '');
    const pending = admit(connection, address);
    if (pending === null) return;
    const ends = endsOf(connection);
    handshakes.set(ends, { address, pending });
    connection.once('close', () => handshakes.get(ends)?.pending === pending && handshakes.delete(ends));
  });
  tls.on('secureConnection', (socket) => {
    const ends = endsOf(socket);
    const client = handshakes.get(ends);
    handshakes.delete(ends);
    if (client === undefined) socket.destroy();
    else take(socket, { ...client, ...certificateOf(socket) });
  });
  tls.on('tlsClientError', (_error, socket) => socket.destroy());
  if (proxies === null) return tls;
  const secureContext = createSecureContext({ cert, key, minVersion: 'TLSv1.2', sessionIdContext: 'twinkeep mqtt' });
  return createServer((connection) => {
    withProxyHeader(connection, proxies, (address, header) => {
      if (header === null) return void tls.emit('connection', connection);
      const pending = admit(connection, address);
      if (pending === null) return;
      const socket = new TLSSocket(connection, { isServer: true, secureContext, ...CLIENT_CERTIFICATES });
      const timer = setTimeout(() => socket.destroy(), handshakeMs);
      socket.on('error', () => socket.destroy());
      socket.once('close', () => clearTimeout(timer));
      socket.once('secure', () => {
        clearTimeout(timer);
        take(socket, { address, pending, ...certificateOf(socket) });
      });
    });
  });
}

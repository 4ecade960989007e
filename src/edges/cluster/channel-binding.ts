import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { BINDING_BYTES } from './link-handshake.ts';

/** The exporter value of a TLS session, `tls-exporter` (RFC 9266 §2): both ends have the same. Zeros without TLS. */
export function channelBinding(socket: Socket): Buffer {
  if (!(socket instanceof TLSSocket)) return Buffer.alloc(BINDING_BYTES);
  return socket.exportKeyingMaterial(BINDING_BYTES, 'EXPORTER-Channel-Binding', Buffer.alloc(0));
}

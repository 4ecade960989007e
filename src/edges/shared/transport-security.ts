import type { IncomingMessage, RequestListener } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { normalizeAddress, trustedAddresses } from './client-address.ts';

/** Returns whether a client sent its request or upgrade over TLS. */
export type IsEncrypted = (request: IncomingMessage) => boolean;

const ENCRYPTED_SCHEMES: ReadonlySet<string> = new Set(['https', 'wss']);

/**
 * Whether the client's connection is encrypted: up to this process, or, if the peer is a trusted proxy that sends
 * `X-Forwarded-Proto`, by that header. Of several values the last one counts, which the nearest proxy added. For an
 * upgrade some proxies name the scheme of the WebSocket (`wss`, RFC 6455 §3) in place of `https`.
 */
export function encryptedRequests(trustedProxies: readonly string[]): IsEncrypted {
  const isTrusted = trustedAddresses(trustedProxies);
  return ({ socket, headers }) => {
    const forwarded = headers['x-forwarded-proto'];
    if (forwarded !== undefined && isTrusted(normalizeAddress(socket.remoteAddress ?? '')))
      return ENCRYPTED_SCHEMES.has(`${forwarded}`.split(',').at(-1)?.trim().toLowerCase() ?? '');
    return (socket as Partial<TLSSocket>).encrypted === true;
  };
}

/**
 * Adds `Strict-Transport-Security` (RFC 6797 §7.1) to the responses to encrypted requests, and never to others (§7.2).
 * Without `includeSubDomains`: other services may be below the same name.
 */
export function withStrictTransportSecurity(
  listener: RequestListener,
  { isEncrypted, maxAgeS }: { isEncrypted: IsEncrypted; maxAgeS: number },
): RequestListener {
  const value = `max-age=${maxAgeS}`;
  return (request, response) => {
    if (isEncrypted(request)) response.setHeader('Strict-Transport-Security', value);
    return listener(request, response);
  };
}

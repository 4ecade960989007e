import type { Readable } from 'node:stream';
import {
  decodeProxyHeader,
  decodeProxyLine,
  MAX_NODE_HEADER_BYTES,
  PROXY_LINE_START,
  PROXY_PREFIX_BYTES,
  PROXY_SIGNATURE,
  type ProxyHeader,
} from './proxy-protocol.ts';

/** The stream ended, or failed, before the bytes arrived. */
export class StreamEnded extends Error {
  override name = 'StreamEnded';
}

/** Reads exactly `size` bytes of a stream in paused mode; the rest stays in it. Rejects with `StreamEnded`. */
export function readBytes(source: Readable, size: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      source.off('readable', attempt);
      source.off('end', fail);
      source.off('error', fail);
      source.off('close', fail);
    };
    const fail = () => {
      settle();
      reject(new StreamEnded());
    };
    const attempt = () => {
      const bytes: Buffer | null = source.read(size);
      if (bytes === null) return;
      if (bytes.length < size) return fail();
      settle();
      resolve(bytes);
    };
    if (source.destroyed || source.readableEnded) return reject(new StreamEnded());
    source.on('readable', attempt);
    source.on('end', fail);
    source.on('error', fail);
    source.on('close', fail);
    attempt();
  });
}

/** Reads the header of another node. Null if these bytes are not a valid one. Rejects with `StreamEnded`. */
export async function readProxyHeader(source: Readable): Promise<ProxyHeader | null> {
  return completeProxyHeader(source, await readBytes(source, PROXY_PREFIX_BYTES), MAX_NODE_HEADER_BYTES);
}

/**
 * Reads a PROXY protocol header of either version if the stream starts with its first byte, which starts neither an MQTT
 * nor a TLS connection; otherwise `absent`, and the stream is unchanged. Null for an invalid header. Rejects with
 * `StreamEnded`.
 */
export async function readOptionalProxyHeader(source: Readable): Promise<ProxyHeader | 'absent' | null> {
  const first = await readBytes(source, 1);
  if (first[0] === PROXY_LINE_START[0]) return readProxyLine(source, first);
  if (first[0] !== PROXY_SIGNATURE[0]) {
    source.unshift(first);
    return 'absent';
  }
  return completeProxyHeader(source, Buffer.concat([first, await readBytes(source, PROXY_PREFIX_BYTES - 1)]));
}

async function completeProxyHeader(source: Readable, prefix: Buffer, maxBytes?: number): Promise<ProxyHeader | null> {
  const decoded = decodeProxyHeader(prefix, maxBytes);
  if (decoded !== 'incomplete') return decoded === 'invalid' ? null : decoded;
  const complete = decodeProxyHeader(
    Buffer.concat([prefix, await readBytes(source, prefix.readUInt16BE(14))]),
    maxBytes,
  );
  return typeof complete === 'string' ? null : complete;
}

/** `first`: the bytes of the line that were read. At least one more byte belongs to it. */
async function readProxyLine(source: Readable, first: Buffer): Promise<ProxyHeader | null> {
  let bytes = first;
  for (;;) {
    const next = await readBytes(source, 1);
    const buffered: Buffer | null = source.read();
    bytes = Buffer.concat(buffered === null ? [bytes, next] : [bytes, next, buffered]);
    const decoded = decodeProxyLine(bytes);
    if (decoded === 'incomplete') continue;
    if (decoded === 'invalid') return null;
    if (bytes.length > decoded.length) source.unshift(bytes.subarray(decoded.length));
    return decoded;
  }
}

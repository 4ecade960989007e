import type { Readable } from 'node:stream';
import { decodeProxyHeader, PROXY_PREFIX_BYTES, type ProxyHeader } from '../shared/proxy-protocol.ts';

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

/** Reads a PROXY protocol header. Null if these bytes are not a valid one. */
export async function readProxyHeader(source: Readable): Promise<ProxyHeader | null> {
  const prefix = await readBytes(source, PROXY_PREFIX_BYTES);
  const decoded = decodeProxyHeader(prefix);
  if (decoded !== 'incomplete') return decoded === 'invalid' ? null : decoded;
  const whole = Buffer.concat([prefix, await readBytes(source, prefix.readUInt16BE(14))]);
  const complete = decodeProxyHeader(whole);
  return typeof complete === 'string' ? null : complete;
}

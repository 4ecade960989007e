import type { IncomingMessage } from 'node:http';
import { BODY_MS, MAX_BODY_BYTES } from '../shared/body.ts';

/**
 * Reads a body of at most `maxBytes` and puts it back, so that the next reader gets all of it. An empty text if
 * it is too large, does not arrive in time or breaks off: the edge answers that.
 */
export function peekBody(request: IncomingMessage, maxBytes = MAX_BODY_BYTES): Promise<string> {
  const length = Number(request.headers['content-length'] ?? 'NaN');
  const chunked = request.headers['transfer-encoding'] !== undefined;
  if (request.destroyed || (!chunked && !(length > 0 && length <= maxBytes))) return Promise.resolve('');
  if (hasEnded(request)) return Promise.resolve('');
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const timer = setTimeout(() => settle(false), BODY_MS);
    const settle = (complete: boolean) => {
      clearTimeout(timer);
      request.off('readable', read);
      request.off('close', interrupt);
      const bytes = Buffer.concat(chunks);
      // In the pass in which the last byte was read: afterwards the stream emits `end` and accepts nothing.
      if (bytes.length > 0 && !request.destroyed) request.unshift(bytes);
      resolve(complete ? bytes.toString() : '');
    };
    const interrupt = () => settle(false);
    const read = () => {
      // A read beyond the last byte would let the stream end.
      while (request.readableLength > 0) {
        const chunk: Buffer = request.read();
        chunks.push(chunk);
        size += chunk.length;
        if (size > maxBytes) return settle(false);
      }
      if (request.complete) settle(true);
    };
    request.on('readable', read);
    request.on('close', interrupt);
    read();
  });
}

/** Whether the end of the body is the next thing to read. */
const hasEnded = ({ complete, readableLength }: IncomingMessage): boolean => complete && readableLength === 0;

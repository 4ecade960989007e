import type { IncomingMessage } from 'node:http';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Upload } from '../../operations/operation.ts';
import { UploadBroken } from '../../services/artifacts.ts';

/** An upload without data for this long is aborted. In total it may take as long as `serverLimits` allow a request. */
const IDLE_TIMEOUT_MS = 30_000;
/** Opens the request body as a stream. Checks the headers before reading anything. */
export function openUpload(request: IncomingMessage, { type, maxBytes }: Upload): Outcome<AsyncIterable<Uint8Array>> {
  const { headers } = request;
  const [given = ''] = (headers['content-type'] ?? '').split(';', 1);
  if (given.trim().toLowerCase() !== type) return refuse('UNSUPPORTED_MEDIA_TYPE', `Send the body as ${type}.`);
  const coding = headers['content-encoding'];
  if (coding !== undefined && coding !== 'identity') {
    return refuse('UNSUPPORTED_MEDIA_TYPE', 'Send the body without a content coding.');
  }
  if (Number(headers['content-length'] ?? 0) > maxBytes) {
    return refuse('PAYLOAD_TOO_LARGE', `The body may have at most ${maxBytes} bytes.`);
  }
  return done(chunksOf(request));
}

async function* chunksOf(request: IncomingMessage): AsyncGenerator<Uint8Array> {
  const idleTimer = setTimeout(() => request.destroy(), IDLE_TIMEOUT_MS);
  try {
    // A consumer that stops reading still has to send a response, so the request must outlive the iteration.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      idleTimer.refresh();
      yield chunk as Buffer;
    }
  } catch {
    throw new UploadBroken('the connection was lost');
  } finally {
    clearTimeout(idleTimer);
  }
  if (!request.complete) throw new UploadBroken('the body is incomplete');
}

import type { IncomingMessage } from 'node:http';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Upload } from '../../operations/operation.ts';
import { artifactTooLarge, UploadBroken } from '../../services/artifacts.ts';

/** Without a byte for so long an upload is given up; and in all it takes no longer than `serverLimits` allow a request. */
const IDLE_TIMEOUT_MS = 30_000;
/** The body of a request as it comes in; refuses what is seen to be wrong before a byte of it is read. */
export function openUpload(request: IncomingMessage, { type, maxBytes }: Upload): Outcome<AsyncIterable<Uint8Array>> {
  const { headers } = request;
  const [given = ''] = (headers['content-type'] ?? '').split(';', 1);
  if (given.trim().toLowerCase() !== type) return refuse('UNSUPPORTED_MEDIA_TYPE', `The body is sent as ${type}.`);
  const coding = headers['content-encoding'];
  if (coding !== undefined && coding !== 'identity') {
    return refuse('UNSUPPORTED_MEDIA_TYPE', 'A body is sent without a content coding.');
  }
  if (Number(headers['content-length'] ?? 0) > maxBytes) return artifactTooLarge();
  return done(chunksOf(request));
}

async function* chunksOf(request: IncomingMessage): AsyncGenerator<Uint8Array> {
  const silence = setTimeout(() => request.destroy(), IDLE_TIMEOUT_MS);
  try {
    // Who stops reading still has to answer: the request outlives its iteration.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      silence.refresh();
      yield chunk as Buffer;
    }
  } catch {
    throw new UploadBroken('the connection was lost');
  } finally {
    clearTimeout(silence);
  }
  if (!request.complete) throw new UploadBroken('the body is not whole');
}

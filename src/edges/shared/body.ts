import type { IncomingMessage } from 'node:http';
import { parseJson } from '../../domain/json/strict.ts';
import { isObject } from '../../domain/json/value.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

export const MAX_BODY_BYTES = 256 * 1024;

/** From the headers to the last byte of a JSON body. */
export const BODY_MS = 30_000;

/** So much of a body that is not wanted is read and thrown away, that its sender hears why; then the connection is cut. */
const DISCARDED_BYTES = 64 * 1024 * 1024;
const DISCARDING_MS = 60_000;

/** The body did not come in time. */
export class TooSlow extends Error {
  override name = 'TooSlow';
}

/** The client went away before its body was whole: nobody is there to answer. */
export class Aborted extends Error {
  override name = 'Aborted';
}

/** A JSON object, or an empty one where there is no body. Throws `Aborted`, `TooSlow`. */
export async function readBody(request: IncomingMessage): Promise<Outcome<JsonObject>> {
  const read = await readJson(request);
  if (!read.ok) return read;
  return isObject(read.value)
    ? done(read.value)
    : invalidBody('The body must be a JSON object.', 'must be a JSON object');
}

/** Any JSON, or an empty object where there is no body. Throws `Aborted`, `TooSlow`. */
export async function readJson(request: IncomingMessage): Promise<Outcome<Json>> {
  const length = Number(request.headers['content-length'] ?? 'NaN');
  const chunked = request.headers['transfer-encoding'] !== undefined;
  if (!chunked && !(length > 0)) return done({});
  const kind = mediaFault(request);
  if (kind !== null) return refuse('UNSUPPORTED_MEDIA_TYPE', kind);
  if (length > MAX_BODY_BYTES) return tooLarge();
  // What came in one piece with its headers is there a moment later.
  await undefined;
  const bytes = !chunked && request.readableLength === length ? wholeOf(request) : await collect(request);
  if (bytes === null) return tooLarge();
  if (bytes.length === 0) return done({});
  const read = parseJson(bytes);
  if (!read.ok) return invalidBody(`The body is refused: ${read.reason}.`, read.reason);
  return done(read.value);
}

const invalidBody = (detail: string, message: string) =>
  refuse('VALIDATION_FAILED', detail, { errors: [{ path: '', message }] });

const tooLarge = () => refuse('PAYLOAD_TOO_LARGE', `A body holds at most ${MAX_BODY_BYTES} bytes.`);

function mediaFault({ headers }: IncomingMessage): string | null {
  const type = headers['content-type'] ?? '';
  if (type !== 'application/json' && !/^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type)) {
    return 'A body is sent as application/json, in UTF-8.';
  }
  const coding = headers['content-encoding'];
  return coding === undefined || coding === 'identity' ? null : 'A body is sent without a content coding.';
}

/** Of a request all of whose body has come, and which may end now. */
function wholeOf(request: IncomingMessage): Buffer {
  const bytes: Buffer = request.read();
  request.resume();
  return bytes;
}

/** Null when it is too large; what follows is read and thrown away. */
function collect(request: IncomingMessage): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let settled = false;
    const late = setTimeout(() => {
      if (!settled) reject(new TooSlow());
      settled = true;
    }, BODY_MS);
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (settled) return;
      if (size <= MAX_BODY_BYTES) {
        chunks.push(chunk);
      } else {
        settled = true;
        clearTimeout(late);
        resolve(null);
      }
    });
    request.on('end', () => {
      settled = true;
      clearTimeout(late);
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    });
    const gone = () => {
      clearTimeout(late);
      if (!settled) reject(new Aborted());
      settled = true;
    };
    request.on('error', gone);
    request.on('close', gone);
    if (request.destroyed) gone();
  });
}

/** After the answer: what still comes of a body is thrown away, within bounds. */
export function discardRest(request: IncomingMessage): void {
  if (request.destroyed) return;
  let left = DISCARDED_BYTES;
  const cut = setTimeout(() => request.destroy(), DISCARDING_MS);
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) request.destroy();
  });
  request.on('error', () => {});
  request.on('close', () => clearTimeout(cut));
  request.resume();
}

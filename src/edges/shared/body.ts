import type { IncomingMessage } from 'node:http';
import { parseJson } from '../../domain/json/strict.ts';
import { isObject } from '../../domain/json/value.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

export const MAX_BODY_BYTES = 256 * 1024;

/** Timeout of a JSON body, from the headers to its last byte. */
export const BODY_MS = 30_000;

/**
 * Bytes of a refused body that are read and discarded so that its sender can read the response; then the connection is
 * closed.
 */
const MAX_DISCARDED_BYTES = 64 * 1024 * 1024;
const DISCARD_TIMEOUT_MS = 60_000;

/** The body did not arrive in time. */
export class TooSlow extends Error {
  override name = 'TooSlow';
}

/** The client disconnected before its body was complete: there is no connection to respond on. */
export class Aborted extends Error {
  override name = 'Aborted';
}

/** Reads a JSON object; an empty one if there is no body. Throws `Aborted`, `TooSlow`. */
export async function readBody(request: IncomingMessage): Promise<Outcome<JsonObject>> {
  const read = await readJson(request);
  if (!read.ok) return read;
  return isObject(read.value)
    ? done(read.value)
    : invalidBody('The body must be a JSON object.', 'must be a JSON object');
}

/** Reads any JSON value; an empty object if there is no body. Throws `Aborted`, `TooSlow`. */
export async function readJson(request: IncomingMessage): Promise<Outcome<Json>> {
  const length = Number(request.headers['content-length'] ?? 'NaN');
  const chunked = request.headers['transfer-encoding'] !== undefined;
  if (!chunked && !(length > 0)) return done({});
  const problem = mediaTypeProblem(request);
  if (problem !== null) return refuse('UNSUPPORTED_MEDIA_TYPE', problem);
  if (length > MAX_BODY_BYTES) return tooLarge();
  // A body that arrived with its headers is readable one microtask later.
  await undefined;
  const bytes = !chunked && request.readableLength === length ? bufferedBody(request) : await collect(request);
  if (bytes === null) return tooLarge();
  if (bytes.length === 0) return done({});
  const read = parseJson(bytes);
  if (!read.ok) return invalidBody(`The body cannot be parsed: ${read.reason}.`, read.reason);
  return done(read.value);
}

const invalidBody = (detail: string, message: string) =>
  refuse('VALIDATION_FAILED', detail, { errors: [{ path: '', message }] });

const tooLarge = () => refuse('PAYLOAD_TOO_LARGE', `The body must not exceed ${MAX_BODY_BYTES} bytes.`);

function mediaTypeProblem({ headers }: IncomingMessage): string | null {
  const type = headers['content-type'] ?? '';
  if (type !== 'application/json' && !/^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type)) {
    return 'Content-Type must be application/json, in UTF-8.';
  }
  const coding = headers['content-encoding'];
  return coding === undefined || coding === 'identity' ? null : 'Content-Encoding is not supported.';
}

/** The body of a request that is completely buffered; lets the request end. */
function bufferedBody(request: IncomingMessage): Buffer {
  const bytes: Buffer = request.read();
  request.resume();
  return bytes;
}

/** Collects the body; null if it is too large. The rest is then read and discarded. */
function collect(request: IncomingMessage): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let settled = false;
    const timer = setTimeout(() => {
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
        clearTimeout(timer);
        resolve(null);
      }
    });
    request.on('end', () => {
      settled = true;
      clearTimeout(timer);
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    });
    const onClosed = () => {
      clearTimeout(timer);
      if (!settled) reject(new Aborted());
      settled = true;
    };
    request.on('error', onClosed);
    request.on('close', onClosed);
    if (request.destroyed) onClosed();
  });
}

/** After the response: reads and discards the rest of a body, within limits of size and time. */
export function discardRest(request: IncomingMessage): void {
  if (request.destroyed) return;
  let remaining = MAX_DISCARDED_BYTES;
  const timer = setTimeout(() => request.destroy(), DISCARD_TIMEOUT_MS);
  request.on('data', (chunk: Buffer) => {
    remaining -= chunk.length;
    if (remaining < 0) request.destroy();
  });
  request.on('error', () => {});
  request.on('close', () => clearTimeout(timer));
  request.resume();
}

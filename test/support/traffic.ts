import { appendFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.env.RECORD_TRAFFIC ?? '';
let isRecorded = true;

/** Whether exchanges are recorded from now on: those with another build need not match the description of this one. */
export function setRecorded(recorded: boolean): void {
  isRecorded = recorded;
}

/**
 * Appends a request and its response as a line of JSON, if `RECORD_TRAFFIC` names a folder, for later conformance
 * checks. All services of the tests are recorded as one host.
 */
export function record(
  { method, path, headers, body }: { method: string; path: string; headers: Record<string, string>; body: unknown },
  answer: { status: number; headers: Headers; text: string },
): void {
  if (folder === '' || !isRecorded) return;
  const exchange = {
    request: { method, url: `http://localhost${path}`, headers, ...textOf(body) },
    response: { status: answer.status, headers: Object.fromEntries(answer.headers), body: answer.text },
  };
  appendFileSync(join(folder, `${process.pid}.ndjson`), `${JSON.stringify(exchange)}\n`);
}

const textOf = (body: unknown): { body?: string } => {
  if (body instanceof Uint8Array) return { body: Buffer.from(body).toString('latin1') };
  return typeof body === 'string' ? { body } : {};
};

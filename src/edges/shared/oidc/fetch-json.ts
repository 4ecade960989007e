import type { Json } from '../../../domain/values.ts';

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 512 * 1024;

/**
 * Fetches a JSON document of the identity provider. Throws if it is unreachable, too slow, too large, not JSON, or
 * redirects: redirects are not followed.
 */
export async function fetchJson(url: string): Promise<Json> {
  const response = await boundedFetch(url, { headers: { accept: 'application/json' } });
  if (response.status !== 200) throw new Error(`${url} responded with status ${response.status}`);
  return (await response.json()) as Json;
}

/** `fetch` with a timeout and a size limit, without redirects. */
export async function boundedFetch(url: string, init: RequestInit = {}): Promise<Response> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetch(url, { ...init, redirect: 'manual', signal });
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    // Leaving the loop cancels the rest of the response.
    if (size > MAX_BYTES) throw new Error(`${url} responded with more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  const { status, statusText, headers } = response;
  const empty = status === 204 || status === 304;
  return new Response(empty ? null : Buffer.concat(chunks), { status, statusText, headers });
}

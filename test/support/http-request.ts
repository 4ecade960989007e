import { Agent, request } from 'node:http';

/** Keeps connections open for the next request; an idle one does not keep the process running. */
const agent = new Agent({ keepAlive: true });
const defaults = { accept: '*/*', 'user-agent': 'node' };

export interface HttpResponse {
  status: number;
  headers: Headers;
  text: string;
}

/**
 * Sends a request and reads the whole response. For suites that send many requests within their process: `fetch` needs more than
 * twice the processor time. Does not follow redirects.
 */
export function httpRequest(
  url: string,
  method: string,
  headers: Record<string, string> = {},
  body?: string | Uint8Array,
): Promise<HttpResponse> {
  // Node would encode the headers like a body that is a string, and not as Latin-1.
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const length = bytes === undefined ? {} : { 'content-length': bytes.length };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, agent, headers: { ...defaults, ...length, ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: headersOf(response), text }));
    });
    sent.on('error', reject);
    sent.end(bytes);
  });
}

function headersOf({ rawHeaders }: { rawHeaders: string[] }): Headers {
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '');
  return headers;
}

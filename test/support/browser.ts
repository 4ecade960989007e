/** A minimal browser: it stores the cookies of one origin and sends them back. */
export interface Browser {
  /** Values by name, as received. */
  cookies: Map<string, string>;
  /** The `Set-Cookie` lines of the last response that had any. */
  lastSet: string[];
  request(
    method: string,
    path: string,
    sent?: { body?: unknown; form?: Record<string, string>; headers?: Record<string, string> },
  ): Promise<BrowserResponse>;
}

export interface BrowserResponse {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape of the response
  body: any;
}

/** Does not follow redirects: each is returned as a response. */
export function browserAt(origin: string): Browser {
  const browser: Browser = {
    cookies: new Map(),
    lastSet: [],
    async request(method, path, { body, form, headers } = {}) {
      const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const response = await fetch(new URL(path, origin), {
        method,
        redirect: 'manual',
        headers: {
          ...(cookie !== '' && { cookie }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(form !== undefined && { body: new URLSearchParams(form) }),
      });
      const set = response.headers.getSetCookie();
      if (set.length > 0) browser.lastSet = set;
      for (const line of set) storeCookie(browser.cookies, line);
      const text = await response.text();
      const isJson = /json/.test(response.headers.get('content-type') ?? '') && text !== '';
      return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    },
  };
  return browser;
}

function storeCookie(cookies: Map<string, string>, line: string): void {
  const [pair = '', ...attributes] = line.split('; ');
  const at = pair.indexOf('=');
  if (attributes.some((attribute) => /^(max-age=0|expires=thu, 01 jan 1970.*)$/i.test(attribute)))
    cookies.delete(pair.slice(0, at));
  else cookies.set(pair.slice(0, at), pair.slice(at + 1));
}

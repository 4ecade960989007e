import type { JsonObject } from '../../../src/domain/values.ts';
import type { Route } from '../../../src/edges/rest/route.ts';
import type { HttpService } from '../../support/http-service.ts';
import type { Ask } from '../endpoint.ts';

/** One request, ready for any edge. */
export interface Request {
  service: HttpService;
  route: Route;
  request: Ask;
  /** Input of the operation, with wire names. */
  input: JsonObject;
  token: string | undefined;
}

/** The response of an edge, with the member names of the operation. */
export type Answered = { body: unknown } | { code: string; detail: string; errors?: unknown };

export interface Edge {
  name: string;
  /** The operation's name in the audit log. */
  via: string;
  /** Whether the edge supports this request. */
  has(request: Pick<Request, 'route' | 'input' | 'token'>): boolean;
  /** Members of the response that differ from REST, with the reason. */
  omits?(route: Route): readonly string[];
  call(request: Request): Promise<Answered>;
}

/** The members of an operation's input, from their locations in REST. */
export function inputOf(
  { path: template, operation, secretHeaders = {}, conditionHeaders = {} }: Route,
  request: Ask,
): JsonObject {
  const [path = '', query = ''] = request.path.split('?', 2);
  const names = template
    .split('/')
    .flatMap((part, n) => (part.startsWith('{') ? [[part.slice(1, -1), n] as const] : []));
  const values = path.split('/');
  const input: JsonObject = { ...(request.body as JsonObject) };
  for (const [name, value] of new URLSearchParams(query)) input[name] = typed(operation.input, name, value);
  for (const [name, n] of names) input[name] = decodeURIComponent(values[n] ?? '');
  for (const [header, name] of Object.entries({ ...secretHeaders, ...conditionHeaders })) {
    const sent = request.headers?.[header];
    if (sent !== undefined) input[name] = typed(operation.input, name, sent.replaceAll('"', ''));
  }
  return input;
}

function typed(schema: Route['operation']['input'], name: string, text: string): string | number | boolean {
  const asText = schema.safeParse({ [name]: text });
  const wrong = asText.success ? [] : asText.error.issues.filter(({ path }) => path[0] === name);
  if (wrong.length === 0 || !/^(-?\d+|true|false)$/.test(text)) return text;
  return text === 'true' || text === 'false' ? text === 'true' : Number(text);
}

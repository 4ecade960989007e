import type { Json, JsonObject } from '../../domain/values.ts';

// Pages, no operations: a browser or a scraper reads them. The tables of the specification and of signing in have them.

const SIGN_IN = 'Identity and tenants';
const noAuthentication: JsonObject = { 'x-role': null, 'x-scope': null, security: [] };
const problem: JsonObject = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };
const html: JsonObject = { 'text/html': { schema: { type: 'string' } } };

/** A page for people where they ask for one, else a problem document. */
const problemResponse = (description: string): JsonObject => ({ description, content: { ...problem, ...html } });
const redirect = (description: string): JsonObject => ({
  description,
  headers: { Location: { required: true, schema: { type: 'string' } } },
});
/** With what every answer within the rate has. */
const rateLimitedResponses = (headers: JsonObject, responses: Record<number, JsonObject>): JsonObject => {
  const all = {
    ...responses,
    429: problemResponse('`RATE_LIMIT_EXCEEDED`: Too many requests'),
    503: problemResponse('`OVERLOADED`: The identity provider does not answer, or this process is shutting down'),
  };
  const told = Object.entries(all).map(([status, response]) => [
    status,
    { ...response, headers: { ...headers, ...(response.headers as JsonObject | undefined) } },
  ]);
  return Object.fromEntries(told);
};
const inQuery = (name: string, description: string, required = true): Json => ({
  ...{ name, in: 'query', required, description },
  schema: { type: 'string' },
});
const NO_PROVIDER = problemResponse('`NOT_FOUND`: No identity provider is configured');

/** By path, with the headers of every answer; the three of signing in stand under the roots alone. */
export const documentedResources = (headers: JsonObject, atRootToo: JsonObject): Record<string, JsonObject> => ({
  '/auth/cli': {
    get: {
      operationId: 'openCliHandshake',
      summary: 'The page that `twinkeep login` opens: sign in, and type the 6 characters of the terminal',
      tags: [SIGN_IN],
      ...noAuthentication,
      parameters: [
        inQuery('code', '32 random bytes, base64url'),
        inQuery('challenge', 'The SHA-256 of the verifier, base64url'),
        inQuery('host', 'What the computer of the command line calls itself', false),
      ],
      responses: rateLimitedResponses(headers, {
        200: { description: 'The page', content: html },
        400: problemResponse('`VALIDATION_FAILED`: This is not a link that the command line made'),
        410: problemResponse('`GONE`: The sign-in is over'),
      }),
    },
  },
  '/auth/login': {
    get: {
      operationId: 'beginSignIn',
      summary: 'Sign in at the identity provider, by authorization code with PKCE',
      tags: [SIGN_IN],
      ...noAuthentication,
      parameters: [inQuery('return_to', 'A path of this service, to come back to', false)],
      responses: rateLimitedResponses(headers, {
        303: redirect('To the identity provider'),
        400: problemResponse('`VALIDATION_FAILED`: Not a path of this service'),
        404: NO_PROVIDER,
      }),
    },
  },
  '/auth/callback': {
    get: {
      operationId: 'endSignIn',
      summary: 'Where the identity provider sends a person back to; opens a cookie session',
      tags: [SIGN_IN],
      ...noAuthentication,
      parameters: [
        inQuery('code', 'Of the identity provider', false),
        inQuery('state', 'As it was sent there', false),
        inQuery('iss', 'The identity provider', false),
        inQuery('error', 'Why it did not sign the person in', false),
      ],
      responses: rateLimitedResponses(headers, {
        303: redirect('Back to where the person came from'),
        403: problemResponse('`FORBIDDEN`: This is not the end of a sign-in that this browser began'),
        404: NO_PROVIDER,
      }),
    },
  },
  '/metrics': {
    ...atRootToo,
    get: {
      operationId: 'getMetrics',
      summary: "Counters and gauges in Prometheus' text form",
      tags: ['System'],
      ...noAuthentication,
      responses: { 200: { description: 'Done', content: { 'text/plain': { schema: { type: 'string' } } } } },
    },
  },
});

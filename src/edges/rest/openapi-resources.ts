import type { Json, JsonObject } from '../../domain/values.ts';

// Resources that are not operations: pages for browsers and metrics for scrapers.

const SIGN_IN = 'Identity and tenants';
const noAuthentication: JsonObject = { 'x-role': null, 'x-scope': null, security: [] };
const problem: JsonObject = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };
const html: JsonObject = { 'text/html': { schema: { type: 'string' } } };

/** An HTML page if the client accepts HTML, otherwise a problem document. */
const problemResponse = (description: string): JsonObject => ({ description, content: { ...problem, ...html } });
const redirect = (description: string): JsonObject => ({
  description,
  headers: { Location: { required: true, schema: { type: 'string' } } },
});
/** Adds the headers and responses of every rate-limited resource. */
const rateLimitedResponses = (headers: JsonObject, responses: Record<number, JsonObject>): JsonObject => {
  const all = {
    ...responses,
    429: problemResponse('`RATE_LIMIT_EXCEEDED`: Too many requests'),
    503: problemResponse('`OVERLOADED`: The identity provider does not answer, or this process is shutting down'),
  };
  const withHeaders = Object.entries(all).map(([status, response]) => [
    status,
    { ...response, headers: { ...headers, ...(response.headers as JsonObject | undefined) } },
  ]);
  return Object.fromEntries(withHeaders);
};
const inQuery = (name: string, description: string, required = true): Json => ({
  ...{ name, in: 'query', required, description },
  schema: { type: 'string' },
});
const NO_PROVIDER = problemResponse('`NOT_FOUND`: No identity provider is configured');

/** By path, with the headers of every response. The three sign-in paths exist only below the base paths. */
export const documentedResources = (headers: JsonObject, atRootToo: JsonObject): Record<string, JsonObject> => ({
  '/auth/cli': {
    get: {
      operationId: 'openCliHandshake',
      summary: 'The page that twinkeep login opens: sign in, and type the 6 characters of the terminal',
      tags: [SIGN_IN],
      ...noAuthentication,
      parameters: [
        inQuery('code', '32 random bytes, base64url'),
        inQuery('challenge', 'The SHA-256 of the verifier, base64url'),
        inQuery('host', 'Host name of the computer that runs the command line', false),
      ],
      responses: rateLimitedResponses(headers, {
        200: { description: 'The page', content: html },
        400: problemResponse('`VALIDATION_FAILED`: The link was not created by the command line'),
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
      parameters: [inQuery('return_to', 'Path of this service to return to', false)],
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
      summary: 'Redirect target of the identity provider; opens a cookie session',
      tags: [SIGN_IN],
      ...noAuthentication,
      parameters: [
        inQuery('code', 'Authorization code of the identity provider', false),
        inQuery('state', 'As sent to the identity provider', false),
        inQuery('iss', 'Issuer identifier of the identity provider', false),
        inQuery('error', 'Error code of the identity provider', false),
      ],
      responses: rateLimitedResponses(headers, {
        303: redirect('To `return_to`'),
        403: problemResponse('`FORBIDDEN`: This browser did not start this sign-in'),
        404: NO_PROVIDER,
      }),
    },
  },
  '/metrics': {
    ...atRootToo,
    get: {
      operationId: 'getMetrics',
      summary: 'Metrics in the Prometheus text format',
      tags: ['System'],
      ...noAuthentication,
      responses: { 200: { description: 'Done', content: { 'text/plain': { schema: { type: 'string' } } } } },
    },
  },
});

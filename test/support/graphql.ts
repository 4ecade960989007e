import type { CallOptions, CallResult, HttpService } from './http-service.ts';

/** Sends the query by POST, as most clients do. */
export const queryGraphql = (
  service: Pick<HttpService, 'call'>,
  query: string,
  { variables, headers, ...sent }: Omit<CallOptions, 'body'> & { variables?: object } = {},
): Promise<CallResult> =>
  service.call('POST', '/graphql', {
    ...sent,
    ...(headers !== undefined && { headers }),
    body: { query, ...(variables !== undefined && { variables }) },
  });

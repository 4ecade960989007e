import type { CallOptions, CallResult, HttpService } from './http-service.ts';

/** Asks by POST, as most clients do. */
export const queryGraphql = (
  house: Pick<HttpService, 'call'>,
  query: string,
  { variables, headers, ...sent }: Omit<CallOptions, 'body'> & { variables?: object } = {},
): Promise<CallResult> =>
  house.call('POST', '/graphql', {
    ...sent,
    ...(headers !== undefined && { headers }),
    body: { query, ...(variables !== undefined && { variables }) },
  });

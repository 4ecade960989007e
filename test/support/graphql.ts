import type { House, Received, Sent } from './house.ts';

/** Asks by POST, as most clients do. */
export const askGraphql = (
  house: Pick<House, 'call'>,
  query: string,
  { variables, headers, ...sent }: Omit<Sent, 'body'> & { variables?: object } = {},
): Promise<Received> =>
  house.call('POST', '/graphql', {
    ...sent,
    ...(headers !== undefined && { headers }),
    body: { query, ...(variables !== undefined && { variables }) },
  });

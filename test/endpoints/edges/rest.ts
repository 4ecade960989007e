import type { Edge } from './edge-client.ts';

export const rest: Edge = {
  name: 'REST',
  via: 'rest',
  has: () => true,
  async call({ house, route, ask, token }) {
    const root = route.atRoot === 'only' ? '' : '/v1';
    const { status, body, headers } = await house.call(route.method, root + ask.path, {
      ...(ask.body !== undefined && { body: ask.body }),
      ...(ask.headers !== undefined && { headers: ask.headers }),
      ...(token !== undefined && { token }),
    });
    if (headers.get('content-type') === 'application/problem+json') return body;
    if (status === 204) return { body: null };
    // This conflict is a result.
    const { code: _, request_id: __, ...rest } = status === 409 ? body : { ...body };
    return { body: Array.isArray(body) ? body : rest };
  },
};

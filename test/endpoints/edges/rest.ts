import type { Edge } from './edge-client.ts';

export const rest: Edge = {
  name: 'REST',
  via: 'rest',
  has: () => true,
  async call({ service, route, request, token }) {
    const root = route.atRoot === 'only' ? '' : '/v1';
    const { status, body, headers } = await service.call(route.method, root + request.path, {
      ...(request.body !== undefined && { body: request.body }),
      ...(request.headers !== undefined && { headers: request.headers }),
      ...(token !== undefined && { token }),
    });
    if (headers.get('content-type') === 'application/problem+json') return body;
    if (status === 204) return { body: null };
    // This conflict is a result.
    const { code: _, request_id: __, ...rest } = status === 409 ? body : { ...body };
    return { body: Array.isArray(body) ? body : rest };
  },
};

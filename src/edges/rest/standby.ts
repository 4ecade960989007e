import type { RequestListener } from 'node:http';
import type { Uuid } from '../../domain/values.ts';
import { requestIdOf } from '../shared/http.ts';
import { type Exchange, sendJson, sendRefusal } from './exchange.ts';

const ROOT = /^\/(?:api\/)?v1(?=\/)/;

/** What a process answers while another is the active one (contract §1): it lives, it is not ready, and all else waits. */
export function makeStandby(parts: { newId(): Uuid; uptimeS(): number }): RequestListener {
  return (request, response) => {
    const url = request.url ?? '/';
    const end = url.indexOf('?');
    const path = end === -1 ? url : url.slice(0, end);
    const exchange: Exchange = {
      request,
      response,
      method: request.method ?? 'GET',
      requestId: requestIdOf(request.headers, parts.newId),
      path,
      query: '',
    };
    request.resume();
    switch (path.replace(ROOT, '')) {
      case '/health/live':
        return sendJson(exchange, 200, { status: 'alive', uptime: parts.uptimeS() });
      case '/health/ready':
        return sendJson(exchange, 503, { status: 'standby' });
      case '/health':
        return sendJson(exchange, 503, { status: 'degraded', checks: { active: false } });
      default:
        return sendRefusal(exchange, {
          code: 'STANDBY',
          detail: 'Another process serves this database; this one takes over when it is gone.',
          retryAfterS: 5,
        });
    }
  };
}

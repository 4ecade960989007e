import type { RequestListener } from 'node:http';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { exchangeOf, sendJson, sendRefusal } from '../shared/exchange.ts';
import { BASE_PATHS } from './route.ts';

/** What everything but health answers meanwhile. */
export const STANDBY_REFUSAL: Refusal = {
  code: 'STANDBY',
  detail: 'Another process serves; this one waits.',
  retryAfterS: 5,
};

/** What answers while another process is the active one of the database (contract §1). */
export function makeStandbyListener(parts: {
  newId(): Uuid;
  uptimeS(): number;
  /** The host's clock minus the database's, where it is too far off to become active; else null. */
  clockOffsetMs(): number | null;
}): RequestListener {
  return (request, response) => {
    const exchange = exchangeOf(request, response, parts);
    const root = BASE_PATHS.find((root) => exchange.path.startsWith(`${root}/`)) ?? '';
    switch (exchange.path.slice(root.length)) {
      case '/health/live':
        sendJson(exchange, 200, { status: 'alive', uptime: parts.uptimeS() });
        break;
      case '/health/ready':
        sendJson(exchange, 503, { status: 'standby' });
        break;
      case '/health':
        sendJson(exchange, 503, { status: 'degraded', ...checksOf(parts.clockOffsetMs()) });
        break;
      default:
        sendRefusal(exchange, STANDBY_REFUSAL);
    }
  };
}

const checksOf = (clockOffsetMs: number | null) =>
  clockOffsetMs === null
    ? { checks: { api: true, worker: false } }
    : {
        checks: { api: true, worker: false, clock: false },
        clock: { host_offset_s: Math.round(clockOffsetMs) / 1000, correction_s: 0 },
      };

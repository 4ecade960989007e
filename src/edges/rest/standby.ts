import type { IncomingMessage, RequestListener } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { httpExchangeOf, sendJson, sendRefusal } from '../shared/http-exchange.ts';
import { refuseUpgrade } from '../shared/upgrade.ts';
import { BASE_PATHS } from './route.ts';

/** Answer of every path except the health checks, from a process that is not active soon. */
const STANDBY_REFUSAL: Refusal = {
  code: 'STANDBY',
  detail: 'Another process is active; this one is on standby.',
  retryAfterS: 5,
};

export interface StandbyParts {
  newId(): Uuid;
  uptimeS(): number;
  /** Host clock minus database clock if that prevents this process from becoming active; otherwise null. */
  clockOffsetMs(): number | null;
  /** Serves requests from when this process is active; null if it is not active soon. Never rejects. */
  whenActive(): Promise<RequestListener | null>;
}

/** HTTP listener while this process does not hold the database's active lock (contract §1). */
export function makeStandbyListener(parts: StandbyParts): RequestListener {
  return (request, response) => {
    const exchange = httpExchangeOf(request, response, parts);
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
        void parts.whenActive().then((listener) => {
          if (listener === null) sendRefusal(exchange, STANDBY_REFUSAL);
          else listener(request, response);
        });
    }
  };
}

type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** Upgrade listener of such a process; `whenActive` like that of `StandbyParts`. */
export function makeStandbyUpgrade({
  newId,
  whenActive,
}: Pick<StandbyParts, 'newId'> & { whenActive(): Promise<UpgradeListener | null> }): UpgradeListener {
  return (request, socket, head) => {
    // The HTTP server no longer handles errors of this socket: without a listener a reset would end the process.
    const destroy = (): void => void socket.destroy();
    socket.on('error', destroy);
    void whenActive().then((upgrade) => {
      // The error of a destroyed socket may follow.
      if (socket.destroyed) return;
      socket.off('error', destroy);
      if (upgrade === null) refuseUpgrade(request, socket, STANDBY_REFUSAL, { newId });
      else upgrade(request, socket, head);
    });
  };
}

const checksOf = (clockOffsetMs: number | null) =>
  clockOffsetMs === null
    ? { checks: { api: true, worker: false } }
    : {
        checks: { api: true, worker: false, clock: false },
        clock: { host_offset_s: Math.round(clockOffsetMs) / 1000, correction_s: 0 },
      };

import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Log } from '../../domain/log.ts';
import { type PeerNode, shardOf } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { ensureRequestId, refuseUpgrade } from '../shared/upgrade.ts';
import { OWNER_UNAVAILABLE } from './http-router.ts';
import { type LinkDialler, LinkError } from './link-dialler.ts';
import { CLIENT_ADDRESS_HEADER, removePrivateHeaders, upgradeHeaders } from './link-headers.ts';
import type { UpgradeListener } from './link-http.ts';
import { relayBytes } from './relay-bytes.ts';
import type { Attempt, ShardRouter } from './shard-router.ts';
import type { TenantHints } from './tenant-hints.ts';

export interface UpgradeRouterParts {
  router: ShardRouter;
  hints: Pick<TenantHints, 'ofUpgrade'>;
  dialler: Pick<LinkDialler, 'open'>;
  /** Serves upgrades of the shards of this node, and those without a tenant. */
  upgrade: UpgradeListener;
  /** The client's address of a public request. */
  addressOf: AddressOf;
  newId(): Uuid;
  log: Log;
}

interface PublicUpgrade {
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
}

/** Routes the upgrade requests of the public HTTP server by the credential in their query. */
export class UpgradeRouter {
  readonly #parts: UpgradeRouterParts;

  constructor(parts: UpgradeRouterParts) {
    this.#parts = parts;
  }

  readonly upgrade: UpgradeListener = (request, socket, head) => {
    const { newId, log } = this.#parts;
    removePrivateHeaders(request);
    socket.on('error', () => socket.destroy());
    this.#route({ request, socket, head }).catch((thrown: unknown) => {
      const about = { request_id: ensureRequestId(request, newId), operation: 'cluster routing' };
      refuseUpgrade(request, socket, refusalOf(thrown, log, about), { newId });
    });
  };

  async #route(given: PublicUpgrade): Promise<void> {
    const { router, hints, upgrade, newId } = this.#parts;
    const { request, socket, head } = given;
    const tenantId = await hints.ofUpgrade(request);
    if (socket.destroyed) return;
    if (tenantId === null) return upgrade(request, socket, head);
    const shard = shardOf(tenantId);
    const routed = await router.route(shard, {
      // The connection outlives the entry: the edge ends it when the tenant moves.
      here: (leave) => {
        try {
          if (!socket.destroyed) upgrade(request, socket, head);
        } finally {
          leave();
        }
      },
      there: (node) => this.#forward(node, shard, given),
    });
    if (!routed) refuseUpgrade(request, socket, OWNER_UNAVAILABLE, { newId });
  }

  async #forward(node: PeerNode, shard: number, { request, socket, head }: PublicUpgrade): Promise<Attempt> {
    if (socket.destroyed) return 'done';
    let link: Duplex;
    try {
      link = await this.#parts.dialler.open(node, { kind: 'upgrade', shard });
    } catch (error) {
      if (error instanceof LinkError) return 'again';
      throw error;
    }
    if (socket.destroyed) {
      link.destroy();
      return 'done';
    }
    link.write(upgradeRequestText(request, this.#parts.addressOf(request)), 'latin1');
    if (head.length > 0) link.write(head);
    relayBytes(socket, link);
    return 'done';
  }
}

/** The head of an upgrade request for the owner; its characters are bytes. */
function upgradeRequestText(request: IncomingMessage, address: string): string {
  const headers = [...upgradeHeaders(request), CLIENT_ADDRESS_HEADER, address];
  const lines = [`${request.method} ${request.url} HTTP/1.1`];
  for (let n = 0; n < headers.length; n += 2) lines.push(`${headers[n]}: ${headers[n + 1]}`);
  return `${lines.join('\r\n')}\r\n\r\n`;
}

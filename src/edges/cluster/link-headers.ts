import type { IncomingMessage } from 'node:http';
import type { AddressOf } from '../shared/client-address.ts';

// The private headers of requests and responses on links, and the headers that a node does not pass on.

/** The client's address, in a request on a link. */
export const CLIENT_ADDRESS_HEADER = 'x-twinkeep-client-address';
/** The shard of a request on a link. */
export const SHARD_HEADER = 'x-twinkeep-shard';
/** In a response with status 421: the node is not the owner of the shard, and has not executed the request. */
export const MISDIRECTED_HEADER = 'x-twinkeep-misdirected';

const PRIVATE = [CLIENT_ADDRESS_HEADER, SHARD_HEADER, MISDIRECTED_HEADER] as const;

/**
 * Headers of one connection (RFC 9110 §7.6.1), which Node writes again where they are needed. `Expect: 100-continue` was
 * answered by the node that accepted the request.
 */
const HOP_BY_HOP: readonly string[] = [
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'],
  ...['http2-settings', 'proxy-authorization', 'proxy-authenticate', 'expect'],
];
const DROPPED: ReadonlySet<string> = new Set([...HOP_BY_HOP, ...PRIVATE]);
/** Private headers only: for an upgrade request, which is passed on as it is. */
const DROPPED_FROM_UPGRADE: ReadonlySet<string> = new Set(PRIVATE);
/** Headers that `Connection` cannot remove: they determine where a message goes and where it ends. */
const KEPT: ReadonlySet<string> = new Set(['host', 'content-length']);

/** Removes the private headers of a request that did not arrive on a link. */
export function removePrivateHeaders({ headers }: IncomingMessage): void {
  for (const name of PRIVATE) if (headers[name] !== undefined) delete headers[name];
}

/** The end-to-end headers of a message, names and values alternating. */
export function endToEndHeaders({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = connectionOptions(headers.connection);
  return headersWithout(rawHeaders, (name) => DROPPED.has(name) || (named.includes(name) && !KEPT.has(name)));
}

/** The headers of an upgrade request, names and values alternating. */
export const upgradeHeaders = ({ rawHeaders }: IncomingMessage): string[] =>
  headersWithout(rawHeaders, (name) => DROPPED_FROM_UPGRADE.has(name));

/** The headers that `Connection` names (RFC 9110 §7.6.1). */
function connectionOptions(connection: string | undefined): readonly string[] {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return [];
  return connection.split(',').map((name) => name.trim().toLowerCase());
}

function headersWithout(raw: readonly string[], isDropped: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let n = 0; n < raw.length; n += 2) {
    const name = raw[n] as string;
    if (!isDropped(name.toLowerCase())) kept.push(name, raw[n + 1] as string);
  }
  return kept;
}

/** The sockets of authenticated links; only their requests may name a client's address. */
export class LinkSockets {
  readonly #sockets = new WeakSet<object>();

  add(socket: object): void {
    this.#sockets.add(socket);
  }

  /** Wraps the function of the public listeners: the address of a forwarded request is the one that its node has seen. */
  addressOf(publicAddressOf: AddressOf): AddressOf {
    return (request) => {
      if (!this.#sockets.has(request.socket)) return publicAddressOf(request);
      const address = request.headers[CLIENT_ADDRESS_HEADER];
      return typeof address === 'string' ? address : '';
    };
  }
}

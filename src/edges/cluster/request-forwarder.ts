import { type ClientRequest, type IncomingMessage, type ServerResponse, request as sendRequest } from 'node:http';
import type { PeerNode } from '../../domain/shards.ts';
import { discardRest } from '../shared/body.ts';
import { LinkError } from './link-dialler.ts';
import { CLIENT_ADDRESS_HEADER, endToEndHeaders, MISDIRECTED_HEADER, SHARD_HEADER } from './link-headers.ts';
import type { LinkPool } from './link-pool.ts';
import type { RequestBody } from './request-body.ts';

/**
 * The outcome of one attempt. `answered`: the response was passed on, or its client has gone. `misdirected` and
 * `unreachable`: the request was certainly not executed. `broken` and `silent` (the node did not respond in time): it was
 * sent, and may have been executed.
 */
export type ForwardOutcome = 'answered' | 'misdirected' | 'unreachable' | 'broken' | 'silent';

/** A request that another node serves. */
export interface ForwardedRequest {
  request: IncomingMessage;
  response: ServerResponse;
  body: RequestBody;
  shard: number;
  /** The client's address. */
  address: string;
}

/** Sends a request to the owner of its shard and passes the response on, both as streams with back-pressure. */
export function forwardRequest(pool: LinkPool, node: PeerNode, forwarded: ForwardedRequest): Promise<ForwardOutcome> {
  const { request, response, body, shard, address } = forwarded;
  return new Promise((resolve) => {
    if (response.destroyed) return resolve('answered');
    const upstream = sendRequest({
      ...pool.optionsOf(node),
      method: request.method,
      path: request.url,
      headers: [...requestHeaders(request), CLIENT_ADDRESS_HEADER, address, SHARD_HEADER, `${shard}`],
    });
    let settled = false;
    const settle = (outcome: ForwardOutcome) => {
      // An error may follow, while the body is sent to another node or is discarded.
      if (settled) return;
      settled = true;
      response.off('close', onClientClosed);
      body.stop();
      resolve(outcome);
    };
    const onClientClosed = () => {
      upstream.destroy();
      settle('answered');
    };
    response.once('close', onClientClosed);
    upstream.on('error', (error) => settle(error instanceof LinkError ? 'unreachable' : 'broken'));
    // Neither end notices a half-open connection. A response that has begun may pause, and so
    // may the client within its body.
    upstream.on('timeout', () => {
      if (settled || !(upstream.writableEnded || upstream.writableNeedDrain)) return;
      settle('silent');
      upstream.destroy();
    });
    upstream.on('response', (incoming) => {
      if (incoming.headers[MISDIRECTED_HEADER] === undefined) {
        settled = true;
        relayResponse({ incoming, upstream, request, response, body });
        resolve('answered');
      } else {
        // A link on which a part of the body is still to come cannot be used again.
        if (upstream.writableEnded) incoming.resume();
        else upstream.destroy();
        settle('misdirected');
      }
    });
    // Nothing of a body is read before there is a connection, so that a request of any length can be sent to another node.
    if (body.isEmpty) upstream.end();
    else upstream.once('socket', () => settled || body.sendTo(upstream));
  });
}

/** Without the framing of the body that Node would choose by the method alone. */
function requestHeaders(request: IncomingMessage): string[] {
  const headers = endToEndHeaders(request);
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined) headers.push('Transfer-Encoding', coding);
  else if (request.headers['content-length'] === undefined && !WITHOUT_BODY.test(request.method ?? ''))
    headers.push('Content-Length', '0');
  return headers;
}

/** The methods for which Node does not announce a body by itself. */
const WITHOUT_BODY = /^(?:GET|HEAD|DELETE|OPTIONS|TRACE|CONNECT)$/;

function relayResponse({
  incoming,
  upstream,
  request,
  response,
  body,
}: Pick<ForwardedRequest, 'request' | 'response' | 'body'> & {
  incoming: IncomingMessage;
  upstream: ClientRequest;
}): void {
  response.writeHead(incoming.statusCode as number, incoming.statusMessage ?? '', endToEndHeaders(incoming) as never);
  // The first part of an event stream may follow much later.
  if (incoming.headers['content-length'] === undefined) response.flushHeaders();
  incoming.on('error', () => response.destroy());
  incoming.on('close', () => incoming.complete || response.destroy());
  response.on('finish', () => {
    if (body.isEmpty || request.readableEnded) return;
    upstream.destroy();
    body.stop();
    discardRest(request);
  });
  incoming.once('data', (first: Buffer) => {
    if (`${first.length}` === incoming.headers['content-length']) {
      // A body that arrived as a whole: Node joins the headers with a text, and writes both in one piece.
      response.end(first.toString('latin1'), 'latin1');
    } else {
      response.write(first);
      incoming.pipe(response);
    }
  });
  incoming.once('end', () => response.end());
}

import type { WebSocket } from 'ws';

/** Bytes that may wait in a socket; above it the other side is not read. */
const HIGH_WATER = 256 * 1024;
/** Close codes that no frame may carry (RFC 6455 §7.4.1): no code was received, or the connection broke off. */
const NO_STATUS = 1005;
const ABNORMAL = 1006;

/**
 * Relays messages and close frames both ways, with back-pressure. Pings of the edge are answered by the client, so that
 * the edge notices when it is gone; the edge's WebSocket must not answer them by itself.
 */
export function relayMessages(client: WebSocket, edge: WebSocket): void {
  relay(client, edge);
  relay(edge, client);
  edge.on('ping', (data) => client.readyState === client.OPEN && client.ping(data));
  client.on('pong', (data) => edge.readyState === edge.OPEN && edge.pong(data));
  client.resume();
}

function relay(from: WebSocket, to: WebSocket): void {
  from.on('message', (data, binary) => {
    if (to.readyState !== to.OPEN) return;
    to.send(data, { binary }, () => {
      if (to.bufferedAmount <= HIGH_WATER) from.resume();
    });
    if (to.bufferedAmount > HIGH_WATER) from.pause();
  });
  from.on('close', (code, reason) => {
    // It may have to read before it can answer the close frame.
    to.resume();
    if (code === ABNORMAL) to.terminate();
    else if (code === NO_STATUS) to.close();
    else to.close(code, reason);
  });
}

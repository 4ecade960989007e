import type { WebSocket } from 'ws';

/**
 * Resolves when the service has authorised this client: it accepts the connection first and checks the credential then.
 * Later messages are not missed. The client also receives the `pong`.
 */
export function waitUntilAuthorized(socket: WebSocket): Promise<void> {
  socket.once('open', () => socket.send('ping'));
  return new Promise((resolve, reject) => {
    const onMessage = (data: unknown) => {
      if (String(data) !== 'pong') return;
      socket.off('message', onMessage);
      resolve();
    };
    socket.on('message', onMessage);
    socket.once('error', reject);
    socket.once('close', (code) => reject(new Error(`closed with ${code}`)));
  });
}

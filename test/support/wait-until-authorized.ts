import type { WebSocket } from 'ws';

/**
 * Resolves when the service has let this client in: it opens a connection first, and looks at the credential then. Nothing
 * that happens afterwards is missed. The client hears the `pong` too.
 */
export function waitUntilAuthorized(socket: WebSocket): Promise<void> {
  socket.once('open', () => socket.send('ping'));
  return new Promise((resolve, reject) => {
    const hear = (data: unknown) => {
      if (String(data) !== 'pong') return;
      socket.off('message', hear);
      resolve();
    };
    socket.on('message', hear);
    socket.once('error', reject);
    socket.once('close', (code) => reject(new Error(`closed with ${code}`)));
  });
}

import { createServer, type Server } from 'node:net';
import type { Config } from '../config.ts';

/** Resolves when the server listens on the configured address; rejects with the error of the system. */
export function listen(server: Server, { host, port }: Pick<Config, 'host' | 'port'>): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Opens and closes each configured port; rejects with the error of the system for one that cannot be opened. */
export async function checkPorts({
  host,
  port,
  mqttPort,
  mqttTlsPort,
}: Pick<Config, 'host' | 'port' | 'mqttPort' | 'mqttTlsPort'>): Promise<void> {
  for (const one of [port, mqttPort, mqttTlsPort]) {
    if (one === null || one === 0) continue;
    const server = createServer();
    await listen(server, { host, port: one });
    await new Promise((resolve) => server.close(resolve));
  }
}

import { createConnection, createServer, type Socket } from 'node:net';

/** A TCP proxy on a free port whose line a test can cut or silence. */
export interface Line {
  port: number;
  /** `url` with the proxy in the place of its host and port. */
  through(url: string): string;
  /** Breaks all connections and refuses new ones. */
  cut(): void;
  /** Keeps connections, and passes nothing on any more. */
  silence(): void;
  /** Passes everything again; silenced bytes are lost with their connections. */
  restore(): void;
  close(): Promise<void>;
}

export async function startProxy(targetUrl: string): Promise<Line> {
  const target = new URL(targetUrl);
  const pairs = new Set<Socket>();
  let state: 'open' | 'cut' | 'silent' = 'open';
  const breakAll = (): void => {
    for (const socket of pairs) socket.destroy();
    pairs.clear();
  };
  const server = createServer((near) => {
    if (state === 'cut') {
      near.destroy();
      return;
    }
    const far = createConnection(Number(target.port), target.hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      pairs.add(from);
      from.on('data', (chunk) => {
        if (state === 'open') to.write(chunk);
      });
      from.on('error', () => {});
      from.on('close', () => {
        pairs.delete(from);
        to.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return {
    port,
    through(url) {
      const changed = new URL(url);
      changed.hostname = '127.0.0.1';
      changed.port = String(port);
      return changed.href;
    },
    cut() {
      state = 'cut';
      breakAll();
    },
    silence() {
      state = 'silent';
    },
    restore() {
      if (state === 'silent') breakAll();
      state = 'open';
    },
    close() {
      breakAll();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

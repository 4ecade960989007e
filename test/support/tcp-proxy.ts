import { createConnection, createServer, type Socket } from 'node:net';

/** A TCP proxy on a free port; a test can cut, hold or silence its connections. */
export interface TcpProxy {
  port: number;
  /** `url` with the proxy's host and port. */
  proxiedUrl(url: string): string;
  /** Breaks all connections and rejects new ones, except those whose first bytes contain `exempt`. */
  cut(exempt?: string): void;
  /** Forwards nothing until `restore`, without losing data. */
  hold(exempt?: string): void;
  /** Keeps connections open, but drops all data, or only the data to the server or to the client. */
  silence(what?: 'requests' | 'responses'): void;
  /**
   * Simulates a network that forgets connections, all or those whose first bytes contain `text`: nothing is forwarded,
   * and neither end notices that the other one closes. New connections work. Returns the number of frozen connections.
   */
  freeze(text?: string): number;
  /** Number of connections until now, also closed ones, whose first bytes contain `text`. */
  opened(text: string): number;
  /** Connects new connections to the server of this URL. */
  retarget(url: string): void;
  /** While cut: number of rejected connections; otherwise number of connections with held data. */
  blocked(): number;
  /** Forwards again; silenced connections are closed, as their data was lost. */
  restore(): void;
  /**
   * Breaks the connection whose client next sends `text`: before forwarding it, or after forwarding it, when the server
   * responds. Resolves when the connection is broken.
   */
  breakAt(text: string, when: 'before' | 'after'): Promise<void>;
  close(): Promise<void>;
}

type State = 'open' | 'cut' | 'held' | 'silent';

interface Breakpoint {
  text: string;
  when: 'before' | 'after';
  onBroken(): void;
}

interface ProxiedConnection {
  clientSocket: Socket;
  serverSocket: Socket;
  /** First bytes from the client, such as PostgreSQL's startup packet with the application name. */
  firstBytes: string;
  /** Breakpoint that takes effect when the server responds. */
  breakOnReply: Breakpoint | null;
  frozen: boolean;
}

export async function startTcpProxy(targetUrl: string): Promise<TcpProxy> {
  let target = new URL(targetUrl);
  const connections = new Set<ProxiedConnection>();
  /** First bytes of all connections until now. */
  const openings: string[] = [];
  let state: State = 'open';
  let exempt: string | undefined;
  let silenced: 'requests' | 'responses' | undefined;
  let refused = 0;
  let breakpoint: Breakpoint | null = null;

  const isExempt = ({ firstBytes }: ProxiedConnection): boolean => exempt !== undefined && firstBytes.includes(exempt);
  const closeConnection = (connection: ProxiedConnection): void => {
    connections.delete(connection);
    connection.clientSocket.destroy();
    connection.serverSocket.destroy();
  };
  const pauseConnection = ({ clientSocket, serverSocket }: ProxiedConnection): void => {
    clientSocket.pause();
    serverSocket.pause();
  };
  const breakAtPoint = (connection: ProxiedConnection, { onBroken }: Breakpoint): void => {
    closeConnection(connection);
    onBroken();
  };

  const fromClient = (connection: ProxiedConnection, chunk: Buffer): void => {
    if (connection.frozen) return;
    if (connection.firstBytes === '') {
      connection.firstBytes = chunk.toString('latin1');
      openings.push(connection.firstBytes);
      if (state === 'cut' && !isExempt(connection)) {
        refused += 1;
        closeConnection(connection);
        return;
      }
      if (state === 'held' && !isExempt(connection)) pauseConnection(connection);
    }
    if (breakpoint !== null && chunk.includes(breakpoint.text)) {
      const { when } = breakpoint;
      if (when === 'before') breakAtPoint(connection, breakpoint);
      else connection.breakOnReply = breakpoint;
      breakpoint = null;
      if (when === 'before') return;
    }
    if (state !== 'silent' || silenced === 'responses') connection.serverSocket.write(chunk);
  };
  const fromServer = (connection: ProxiedConnection, chunk: Buffer): void => {
    if (connection.frozen) return;
    if (connection.breakOnReply !== null) breakAtPoint(connection, connection.breakOnReply);
    else if (state !== 'silent' || silenced === 'requests') connection.clientSocket.write(chunk);
  };

  const server = createServer((clientSocket) => {
    if (state === 'cut' && exempt === undefined) {
      refused += 1;
      clientSocket.destroy();
      return;
    }
    const serverSocket = createConnection(Number(target.port), target.hostname);
    const connection: ProxiedConnection = {
      clientSocket,
      serverSocket,
      firstBytes: '',
      breakOnReply: null,
      frozen: false,
    };
    connections.add(connection);
    clientSocket.on('data', (chunk) => fromClient(connection, chunk));
    serverSocket.on('data', (chunk) => fromServer(connection, chunk));
    for (const socket of [clientSocket, serverSocket]) {
      socket.on('error', () => {});
      socket.on('close', () => connection.frozen || closeConnection(connection));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return {
    port,
    proxiedUrl(url) {
      const changed = new URL(url);
      changed.hostname = '127.0.0.1';
      changed.port = String(port);
      return changed.href;
    },
    cut(exemptText) {
      state = 'cut';
      exempt = exemptText;
      refused = 0;
      for (const connection of connections) if (!isExempt(connection)) closeConnection(connection);
    },
    hold(exemptText) {
      state = 'held';
      exempt = exemptText;
      for (const connection of connections) if (!isExempt(connection)) pauseConnection(connection);
    },
    silence(what) {
      state = 'silent';
      silenced = what;
    },
    freeze(text = '') {
      const matching = [...connections].filter(({ firstBytes }) => firstBytes.includes(text));
      for (const connection of matching) connection.frozen = true;
      return matching.length;
    },
    opened: (text) => openings.filter((firstBytes) => firstBytes.includes(text)).length,
    retarget(url) {
      target = new URL(url);
    },
    blocked() {
      if (state === 'cut') return refused;
      return [...connections].filter(
        ({ clientSocket, serverSocket }) => clientSocket.readableLength + serverSocket.readableLength > 0,
      ).length;
    },
    restore() {
      if (state === 'silent') for (const connection of connections) closeConnection(connection);
      state = 'open';
      exempt = undefined;
      for (const { clientSocket, serverSocket } of connections) {
        clientSocket.resume();
        serverSocket.resume();
      }
    },
    breakAt: (text, when) =>
      new Promise((resolve) => {
        breakpoint = { text, when, onBroken: resolve };
      }),
    close() {
      for (const connection of connections) closeConnection(connection);
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

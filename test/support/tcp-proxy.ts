import { createConnection, createServer, type Socket } from 'node:net';

/** A TCP proxy on a free port whose line a test can cut, hold or silence. */
export interface TcpProxy {
  port: number;
  /** `url` with the proxy in the place of its host and port. */
  proxiedUrl(url: string): string;
  /** Breaks all connections and refuses new ones, but for those whose first words hold `spared`. */
  cut(spared?: string): void;
  /** Passes nothing on until `restore`, and loses nothing. */
  hold(spared?: string): void;
  /** Keeps connections, and passes nothing on any more. */
  silence(): void;
  /**
   * The network forgets the connections there are, or those whose first bytes hold `words`: nothing is passed on, and neither
   * end learns when the other one closes. New connections work. Answers how many there were.
   */
  freeze(words?: string): number;
  /** New connections go to the server of this URL. */
  retarget(url: string): void;
  /** Connections that were refused since the line was cut, and those whose bytes are held back now. */
  blocked(): number;
  /** Passes everything again; silenced bytes are lost with their connections. */
  restore(): void;
  /**
   * Breaks the connection whose client next says `words`: before they are passed on, or after they were, when the server
   * answers. Resolves when that has happened.
   */
  breakAt(words: string, when: 'before' | 'after'): Promise<void>;
  close(): Promise<void>;
}

type State = 'open' | 'cut' | 'held' | 'silent';

interface Trap {
  words: string;
  when: 'before' | 'after';
  sprung(): void;
}

interface Pair {
  near: Socket;
  far: Socket;
  /** What the client said first, as PostgreSQL's startup packet with the application's name. */
  greeting: string;
  /** Broken when the server answers. */
  doomed: Trap | null;
  frozen: boolean;
}

export async function startTcpProxy(targetUrl: string): Promise<TcpProxy> {
  let target = new URL(targetUrl);
  const pairs = new Set<Pair>();
  let state: State = 'open';
  let spared: string | undefined;
  let refused = 0;
  let trap: Trap | null = null;

  const isSpared = ({ greeting }: Pair): boolean => spared !== undefined && greeting.includes(spared);
  const breakPair = (pair: Pair): void => {
    pairs.delete(pair);
    pair.near.destroy();
    pair.far.destroy();
  };
  const holdPair = ({ near, far }: Pair): void => {
    near.pause();
    far.pause();
  };
  const spring = (pair: Pair, { sprung }: Trap): void => {
    breakPair(pair);
    sprung();
  };

  const fromClient = (pair: Pair, chunk: Buffer): void => {
    if (pair.frozen) return;
    if (pair.greeting === '') {
      pair.greeting = chunk.toString('latin1');
      if (state === 'cut' && !isSpared(pair)) {
        refused += 1;
        breakPair(pair);
        return;
      }
      if (state === 'held' && !isSpared(pair)) holdPair(pair);
    }
    if (trap !== null && chunk.includes(trap.words)) {
      const { when } = trap;
      if (when === 'before') spring(pair, trap);
      else pair.doomed = trap;
      trap = null;
      if (when === 'before') return;
    }
    if (state !== 'silent') pair.far.write(chunk);
  };
  const fromServer = (pair: Pair, chunk: Buffer): void => {
    if (pair.frozen) return;
    if (pair.doomed !== null) spring(pair, pair.doomed);
    else if (state !== 'silent') pair.near.write(chunk);
  };

  const server = createServer((near) => {
    if (state === 'cut' && spared === undefined) {
      refused += 1;
      near.destroy();
      return;
    }
    const far = createConnection(Number(target.port), target.hostname);
    const pair: Pair = { near, far, greeting: '', doomed: null, frozen: false };
    pairs.add(pair);
    near.on('data', (chunk) => fromClient(pair, chunk));
    far.on('data', (chunk) => fromServer(pair, chunk));
    for (const socket of [near, far]) {
      socket.on('error', () => {});
      socket.on('close', () => pair.frozen || breakPair(pair));
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
    cut(but) {
      state = 'cut';
      spared = but;
      refused = 0;
      for (const pair of pairs) if (!isSpared(pair)) breakPair(pair);
    },
    hold(but) {
      state = 'held';
      spared = but;
      for (const pair of pairs) if (!isSpared(pair)) holdPair(pair);
    },
    silence() {
      state = 'silent';
    },
    freeze(words = '') {
      const forgotten = [...pairs].filter(({ greeting }) => greeting.includes(words));
      for (const pair of forgotten) pair.frozen = true;
      return forgotten.length;
    },
    retarget(url) {
      target = new URL(url);
    },
    blocked() {
      if (state === 'cut') return refused;
      return [...pairs].filter(({ near, far }) => near.readableLength + far.readableLength > 0).length;
    },
    restore() {
      if (state === 'silent') for (const pair of pairs) breakPair(pair);
      state = 'open';
      spared = undefined;
      for (const { near, far } of pairs) {
        near.resume();
        far.resume();
      }
    },
    breakAt: (words, when) =>
      new Promise((resolve) => {
        trap = { words, when, sprung: resolve };
      }),
    close() {
      for (const pair of pairs) breakPair(pair);
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

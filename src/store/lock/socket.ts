import { randomBytes } from 'node:crypto';
import { closeSync, linkSync, mkdirSync, openSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { createConnection, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { type ActiveLock, OwnedByAnother } from '../contract.ts';

const NAME = 'owner.sock';
/** What fits into `sun_path`, with its end: 108 bytes on Linux, 104 elsewhere. */
const LONGEST_PATH = 103;
const TELL_TIMEOUT_MS = 1_000;
const LOOK_MS = 1_000;

/** What the owner of a folder says of itself to whoever asks. */
interface Owner {
  pid: number;
  /** ISO 8601. */
  since: string;
}

/**
 * A listening Unix socket in a folder says whose it is. PGlite has no lock of its own, and two processes on one folder
 * lose acknowledged rows. A socket on which nobody listens was left by a process that was killed.
 */
export class SocketLock implements ActiveLock {
  private readonly dataDir: string;
  private readonly listeners: (() => void)[] = [];
  private server: Server | null = null;
  private place: Place | null = null;
  private inode = 0;
  private look: NodeJS.Timeout | null = null;

  constructor(dataDir: string) {
    this.dataDir = dataDir;
  }

  /** Does not wait: throws `OwnedByAnother`. */
  async acquire(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    mkdirSync(this.dataDir, { recursive: true, mode: 0o700 });
    const place = placeIn(realpathSync(this.dataDir));
    try {
      for (;;) {
        const server = await listen(place.path);
        if (server) {
          this.hold(server, place);
          return;
        }
        await this.removeStale(place);
      }
    } catch (error) {
      place.close();
      throw error;
    }
  }

  onLost(listener: () => void): void {
    this.listeners.push(listener);
  }

  async release(): Promise<void> {
    const { server, place } = this;
    this.letGo();
    if (!server) return;
    await new Promise<void>((resolve) => server.close(() => resolve()));
    place?.close();
  }

  /** Returns when the place is free; throws where somebody listens. */
  private async removeStale(place: Place): Promise<void> {
    const aside = `${place.path}.${randomBytes(4).toString('hex')}`;
    const owner = await ask(place.path);
    if (owner) throw ownedBy(this.dataDir, owner);
    try {
      renameSync(place.path, aside);
    } catch {
      return; // another process was quicker
    }
    // Between the question and the renaming a new owner may have come: then it gets its name back.
    const late = await ask(aside);
    if (late) linkSync(aside, place.path);
    rmSync(aside, { force: true });
    if (late) throw ownedBy(this.dataDir, late);
  }

  private hold(server: Server, place: Place): void {
    this.server = server;
    this.place = place;
    this.inode = statSync(place.path).ino;
    this.look = setInterval(() => {
      if (this.isOurs(place)) return;
      this.letGo();
      server.close();
      for (const listener of this.listeners) listener();
    }, LOOK_MS);
  }

  /** The socket's file was neither removed nor replaced: else another process could come in. */
  private isOurs(place: Place): boolean {
    return statSync(place.path, { throwIfNoEntry: false })?.ino === this.inode;
  }

  private letGo(): void {
    if (this.look) clearInterval(this.look);
    this.look = null;
    this.server = null;
  }
}

interface Place {
  path: string;
  close(): void;
}

/** A path that is short enough: through an open descriptor of the folder where its own name is too long. */
function placeIn(folder: string): Place {
  const path = join(folder, NAME);
  // The longest name made of it is that of a stale socket put aside.
  if (Buffer.byteLength(path) + 9 <= LONGEST_PATH) return { path, close() {} };
  if (process.platform !== 'linux') throw new Error(`DATA_DIR is too long for a socket in it: ${folder}`);
  const descriptor = openSync(folder, 'r');
  return { path: `/proc/self/fd/${descriptor}/${NAME}`, close: () => closeSync(descriptor) };
}

/** Null where the name is taken. */
function listen(path: string): Promise<Server | null> {
  const owner: Owner = { pid: process.pid, since: new Date().toISOString() };
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end(JSON.stringify(owner));
  });
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(null) : reject(error),
    );
    server.listen({ path, readableAll: false, writableAll: false }, () => resolve(server.unref()));
  });
}

/** Who listens there: null where nobody does, empty where somebody does and says nothing. */
function ask(path: string): Promise<Partial<Owner> | null> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    let said = '';
    let connected = false;
    const finish = (): void => {
      socket.destroy();
      resolve(connected ? parsed(said) : null);
    };
    socket.setTimeout(TELL_TIMEOUT_MS, finish);
    socket.on('connect', () => {
      connected = true;
    });
    socket.on('data', (chunk) => {
      said += chunk;
    });
    socket.on('end', finish);
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // Its queue of connections is full, or it closed on us: somebody is there all the same.
      if (error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT') connected = true;
      finish();
    });
  });
}

function parsed(text: string): Partial<Owner> {
  try {
    return JSON.parse(text) as Partial<Owner>;
  } catch {
    return {};
  }
}

const ownedBy = (folder: string, { pid, since }: Partial<Owner>): OwnedByAnother =>
  new OwnedByAnother(
    `The data in ${folder} belong to another running process${pid ? ` (pid ${pid}, since ${since})` : ''}. ` +
      'Stop it first, or set DATABASE_URL to share a PostgreSQL server.',
  );

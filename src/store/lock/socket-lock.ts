import { randomBytes } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readdirSync, realpathSync, rmSync, statSync } from 'node:fs';
import { createConnection, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Lease } from '../../domain/lease.ts';
import { type ActiveLock, OwnedByAnother } from '../contract.ts';

const NAME = /^owner-[0-9a-f]{12}\.sock$/;
const newName = (): string => `owner-${randomBytes(6).toString('hex')}.sock`;
/** What fits into `sun_path` with its end: 108 bytes on Linux, 104 elsewhere. */
const LONGEST_PATH = 103;
const REPLY_TIMEOUT_MS = 1_000;
const LOOK_MS = 1_000;
const AGAIN_MS = 20;

/** What a socket in the folder says of itself to whoever asks. */
interface OwnerInfo {
  pid: number;
  /** ISO 8601. */
  since: string;
  /** False while it still looks whether another is there. */
  owner: boolean;
}

/**
 * A listening Unix socket in a folder says whose the folder is. PGlite has no lock of its own, and two processes on one
 * folder lose acknowledged rows. A socket on which nobody listens was left by a process that was killed.
 *
 * Each process listens first, under a name of its own that is never used again, and then asks all others that it
 * finds: of two that start at once at least one sees the other, and of two that both only look the lesser name goes on.
 */
export class SocketLock implements ActiveLock {
  private readonly dataDir: string;
  private readonly listeners: (() => void)[] = [];
  private readonly claim: OwnerInfo = { pid: process.pid, since: new Date().toISOString(), owner: false };
  private held: OwnerSocket | null = null;
  private checkTimer: NodeJS.Timeout | null = null;
  /** Valid as long as the socket is held: no other process takes it over, whatever becomes of this one. */
  readonly lease: Lease = { epoch: 0, valid: () => this.held !== null };

  constructor(dataDir: string) {
    this.dataDir = dataDir;
  }

  /** Does not wait for an owner to go: throws `OwnedByAnother`. */
  async acquire(signal: AbortSignal): Promise<void> {
    mkdirSync(this.dataDir, { recursive: true, mode: 0o700 });
    const folder = openFolder(realpathSync(this.dataDir));
    while (!this.held) {
      signal.throwIfAborted();
      const socket = await listen(folder, this.claim);
      try {
        while (await this.hasContenders(socket)) await pause(AGAIN_MS, undefined, { signal });
      } catch (error) {
        await socket.close();
        folder.close();
        throw error;
      }
      // It may have been removed as left behind in the instant before it listened.
      if (socket.exists()) this.hold(socket);
      else await socket.close();
    }
  }

  onLost(listener: () => void): void {
    this.listeners.push(listener);
  }

  /** Never called: the embedded database runs by this machine's clock. */
  onRenewed(): void {}

  async release(): Promise<void> {
    const { held } = this;
    this.drop();
    if (!held) return;
    await held.close();
    held.folder.close();
  }

  /** Throws where another owns the folder, or looks with a lesser name; removes what was left behind. */
  private async hasContenders(own: OwnerSocket): Promise<boolean> {
    let looking = false;
    for (const name of readdirSync(own.folder.path)) {
      if (!NAME.test(name) || name === own.name) continue;
      const path = join(own.folder.path, name);
      const other = await queryOwner(path);
      if (other === null) rmSync(path, { force: true });
      else if (other.owner !== false || name < own.name) throw ownedByAnotherError(this.dataDir, other);
      else looking = true;
    }
    return looking;
  }

  private hold(socket: OwnerSocket): void {
    this.claim.owner = true;
    this.held = socket;
    this.checkTimer = setInterval(() => {
      // Without its name in the folder another process could come in.
      if (socket.exists()) return;
      this.drop();
      void socket.close();
      for (const listener of this.listeners) listener();
    }, LOOK_MS);
  }

  private drop(): void {
    if (this.checkTimer) clearInterval(this.checkTimer);
    this.checkTimer = null;
    this.held = null;
    this.claim.owner = false;
  }
}

interface Folder {
  /** Short enough for a socket's path. */
  path: string;
  close(): void;
}

/** Where the folder's own path is too long, it is reached through an open descriptor. */
function openFolder(path: string): Folder {
  if (Buffer.byteLength(join(path, newName())) <= LONGEST_PATH) return { path, close() {} };
  if (process.platform !== 'linux') throw new Error(`DATA_DIR is too long for a socket in it: ${path}`);
  const descriptor = openSync(path, 'r');
  return { path: `/proc/self/fd/${descriptor}`, close: () => closeSync(descriptor) };
}

interface OwnerSocket {
  folder: Folder;
  name: string;
  /** Its name was neither removed nor replaced. */
  exists(): boolean;
  /** Removes the name too. */
  close(): Promise<void>;
}

async function listen(folder: Folder, claim: OwnerInfo): Promise<OwnerSocket> {
  const name = newName();
  const path = join(folder.path, name);
  const server: Server = createServer((connection) => {
    connection.on('error', () => {});
    connection.end(JSON.stringify(claim));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  server.unref();
  const inode = statSync(path, { throwIfNoEntry: false })?.ino;
  return {
    folder,
    name,
    exists: () => inode !== undefined && statSync(path, { throwIfNoEntry: false })?.ino === inode,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** What is said there: null where nobody listens, nothing where somebody does and is silent. */
async function queryOwner(path: string): Promise<Partial<OwnerInfo> | null> {
  for (;;) {
    const said = await readReply(path);
    // It closed before it answered, on its way out: now it is gone, or another question is answered.
    if (said !== '') return said === null ? null : parseReply(said);
  }
}

/** The words of whoever listens: null for nobody, empty when the connection ended without one. */
function readReply(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    const connection = createConnection(path);
    let said = '';
    const finish = (words: string | null): void => {
      connection.destroy();
      resolve(words);
    };
    connection.setTimeout(REPLY_TIMEOUT_MS, () => finish('{}'));
    connection.on('data', (chunk) => {
      said += chunk;
    });
    connection.on('end', () => finish(said));
    connection.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') finish(null);
      else if (error.code === 'ECONNRESET' || error.code === 'EPIPE') finish('');
      else finish('{}'); // its queue of connections is full, or it is not ours to ask: somebody is there
    });
  });
}

function parseReply(text: string): Partial<OwnerInfo> {
  try {
    return JSON.parse(text) as Partial<OwnerInfo>;
  } catch {
    return {};
  }
}

const ownedByAnotherError = (folder: string, { pid, since }: Partial<OwnerInfo>): OwnedByAnother =>
  new OwnedByAnother(
    `The data in ${folder} belong to another running process${pid ? ` (pid ${pid}, since ${since})` : ''}. ` +
      'Stop it first, or set DATABASE_URL to share a PostgreSQL server.',
  );

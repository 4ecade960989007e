import { randomBytes, randomUUID } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readdirSync, realpathSync, rmSync, statSync } from 'node:fs';
import { createConnection, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Lease } from '../../domain/lease.ts';
import type { Uuid } from '../../domain/values.ts';
import { type ActiveLock, OwnedByAnother } from '../contract.ts';

const NAME = /^owner-[0-9a-f]{12}\.sock$/;
const newName = (): string => `owner-${randomBytes(6).toString('hex')}.sock`;
/** Limit of `sun_path` without its terminating byte: 108 bytes on Linux, 104 elsewhere. */
const MAX_SOCKET_PATH = 103;
const REPLY_TIMEOUT_MS = 1_000;
const CHECK_MS = 1_000;
const RETRY_MS = 20;

/** Reply of a lock socket to a connection. */
interface OwnerInfo {
  pid: number;
  /** ISO 8601. */
  since: string;
  /** False while the process still checks for contenders. */
  owner: boolean;
}

/**
 * Exclusive lock on a folder by a listening Unix socket in it. PGlite has no lock, and two processes on one folder lose
 * acknowledged rows. A socket without a listener was left by a process that was killed.
 *
 * Each process first listens under a unique, never reused name, and then queries all other sockets in the folder: of
 * two processes that start at once at least one sees the other. If both are still checking, the lesser name wins.
 */
export class SocketLock implements ActiveLock {
  readonly #dataDir: string;
  readonly #listeners: (() => void)[] = [];
  readonly #claim: OwnerInfo = { pid: process.pid, since: new Date().toISOString(), owner: false };
  #held: OwnerSocket | null = null;
  #checkTimer: NodeJS.Timeout | null = null;
  readonly node: Uuid = randomUUID();
  /** Valid as long as the socket is held: no other process takes it over, even if this one hangs. */
  readonly lease: Lease = { epoch: 0, valid: () => this.#held !== null };

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
  }

  /** Does not wait for another owner: throws `OwnedByAnother`. */
  async acquire(signal: AbortSignal): Promise<void> {
    mkdirSync(this.#dataDir, { recursive: true, mode: 0o700 });
    const folder = openFolder(realpathSync(this.#dataDir));
    while (!this.#held) {
      signal.throwIfAborted();
      const socket = await listen(folder, this.#claim).catch((error: NodeJS.ErrnoException) => {
        folder.close();
        throw new Error(`DATA_DIR does not accept a lock file in ${this.#dataDir} (${error.code})`, { cause: error });
      });
      try {
        while (await this.#hasContenders(socket)) await pause(RETRY_MS, undefined, { signal });
      } catch (error) {
        await socket.close();
        folder.close();
        throw error;
      }
      // Another process may have removed it as stale between its creation and the listen call.
      if (socket.exists()) this.#hold(socket);
      else await socket.close();
    }
  }

  onLost(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Never called: the embedded database uses this machine's clock. */
  onRenewed(): void {}

  async release(): Promise<void> {
    const held = this.#held;
    this.#drop();
    if (!held) return;
    await held.close();
    held.folder.close();
  }

  /**
   * True while another process is checking too. Throws if another process owns the folder, or is checking with a lesser
   * name. Removes stale sockets.
   */
  async #hasContenders(own: OwnerSocket): Promise<boolean> {
    let checking = false;
    for (const name of readdirSync(own.folder.path)) {
      if (!NAME.test(name) || name === own.name) continue;
      const path = join(own.folder.path, name);
      const other = await queryOwner(path);
      if (other === null) rmSync(path, { force: true });
      else if (other.owner !== false || name < own.name) throw ownedByAnotherError(this.#dataDir, other);
      else checking = true;
    }
    return checking;
  }

  #hold(socket: OwnerSocket): void {
    this.#claim.owner = true;
    this.#held = socket;
    this.#checkTimer = setInterval(() => {
      // Without the file another process could acquire the lock.
      if (socket.exists()) return;
      this.#drop();
      void socket.close();
      for (const listener of this.#listeners) listener();
    }, CHECK_MS);
  }

  #drop(): void {
    if (this.#checkTimer) clearInterval(this.#checkTimer);
    this.#checkTimer = null;
    this.#held = null;
    this.#claim.owner = false;
  }
}

interface Folder {
  /** Short enough for a socket path. */
  path: string;
  close(): void;
}

/** A folder whose path is too long is reached through an open descriptor. */
function openFolder(path: string): Folder {
  if (Buffer.byteLength(join(path, newName())) <= MAX_SOCKET_PATH) return { path, close() {} };
  if (process.platform !== 'linux') throw new Error(`DATA_DIR is too long for a Unix socket: ${path}`);
  const descriptor = openSync(path, 'r');
  return { path: `/proc/self/fd/${descriptor}`, close: () => closeSync(descriptor) };
}

interface OwnerSocket {
  folder: Folder;
  name: string;
  /** True if the file was neither removed nor replaced. */
  exists(): boolean;
  /** Also removes the file. */
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

/** Reply of the socket's process: null without a listener, empty if it does not reply. */
async function queryOwner(path: string): Promise<Partial<OwnerInfo> | null> {
  for (;;) {
    const reply = await readReply(path);
    // An empty reply: the process closed while shutting down. Query again; the socket is gone by then, or replies.
    if (reply !== '') return reply === null ? null : parseReply(reply);
  }
}

/** Text of the reply: null without a listener, empty if the connection ended without one. */
function readReply(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    const connection = createConnection(path);
    let reply = '';
    const finish = (result: string | null): void => {
      connection.destroy();
      resolve(result);
    };
    connection.setTimeout(REPLY_TIMEOUT_MS, () => finish('{}'));
    connection.on('data', (chunk) => {
      reply += chunk;
    });
    connection.on('end', () => finish(reply));
    connection.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') finish(null);
      else if (error.code === 'ECONNRESET' || error.code === 'EPIPE') finish('');
      else finish('{}'); // Backlog full, or permission denied: a process listens.
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

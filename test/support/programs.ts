import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { commonFolder } from './memory-folder.ts';

/** Paths of programs that some tests run; null if they are not installed. Tests use `inject('programs')`. */
export interface Programs {
  /** Preferably the headless shell, which needs less processor time. */
  chromium: string | null;
  haproxy: string | null;
  nginx: string | null;
  /** Helm in a folder made by scripts/install-helm.sh. */
  helm: string | null;
  prometheus: string | null;
  promtool: string | null;
  curl: string | null;
  jq: string | null;
  openssl: string | null;
  'systemd-analyze': string | null;
  mosquitto_pub: string | null;
  mosquitto_sub: string | null;
  /** A C compiler with the sanitizers. */
  gcc: string | null;
  nm: string | null;
  /** A header of libpaho-mqtt-dev. */
  'paho-mqtt for C': string | null;
  /** A Python with paho-mqtt 1. */
  'paho-mqtt 1': string | null;
  /** The same Python, if it has `cryptography`. */
  'python3-cryptography': string | null;
}

export const findPrograms = (): Programs => ({
  chromium: program('chromium-headless-shell') ?? program('chromium'),
  haproxy: program('haproxy'),
  nginx: program('nginx'),
  helm: helmOfTools(),
  prometheus: program('prometheus'),
  promtool: program('promtool'),
  curl: program('curl'),
  jq: program('jq'),
  openssl: program('openssl'),
  'systemd-analyze': program('systemd-analyze'),
  mosquitto_pub: program('mosquitto_pub'),
  mosquitto_sub: program('mosquitto_sub'),
  gcc: program('gcc'),
  nm: program('nm'),
  'paho-mqtt for C': existsSync('/usr/include/MQTTClient.h') ? '/usr/include/MQTTClient.h' : null,
  'paho-mqtt 1': pythonWith(PAHO_1),
  'python3-cryptography': pythonWith(`${PAHO_1}; import cryptography`),
});

/** Not a Helm of the path, because the test needs the other tools of the folder too. */
function helmOfTools(): string | null {
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
  const path = join(process.env.HELM_TOOLS ?? join(cache, 'twinkeep/helm-4.1.4'), 'helm');
  return isExecutable(path) ? path : null;
}

const PAHO_1 = 'import paho.mqtt; assert paho.mqtt.__version__.startswith("1.")';

/** Debian's Python first: its packages install for it. */
function pythonWith(check: string): string | null {
  const pythons = ['/usr/bin/python3', program('python3')].filter((path) => path !== null);
  return pythons.find((python) => spawnSync(python, ['-c', check]).status === 0) ?? null;
}

/** Path of a program, or null. */
export function program(name: string, folders: readonly string[] = []): string | null {
  for (const folder of [...folders, ...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']) {
    const path = join(folder, name);
    if (isExecutable(path)) return path;
  }
  return null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Below the range of ephemeral ports. */
const PORT_RANGE = [12_000, 32_768] as const;

/** One file per reserved port, with the id of the process that reserved it. */
const reservations = join(commonFolder(), `twinkeep-ports-${process.getuid?.() ?? 'all'}`);

/**
 * A free port, reserved for this process until it ends: no other worker or test run gets it between this call and the
 * start of the server, nor while the server is restarted.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(...PORT_RANGE);
    if (reserve(port) && (await isFree(port))) return port;
  }
}

function reserve(port: number): boolean {
  mkdirSync(reservations, { recursive: true });
  const file = join(reservations, `${port}`);
  try {
    writeFileSync(file, `${process.pid}`, { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    if (!isHeld(file)) rmSync(file, { force: true });
    return false;
  }
}

/** False if the process that made the reservation has ended. A file without a number is just being written. */
function isHeld(file: string): boolean {
  try {
    const pid = Number(readFileSync(file, 'utf8'));
    return pid === 0 || process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer();
    server.on('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });

/** Folders of the programs of each installed PostgreSQL version, newest first. */
export function postgresFolders(): string[] {
  const root = '/usr/lib/postgresql';
  try {
    return readdirSync(root)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => join(root, version, 'bin'));
  } catch {
    return [];
  }
}

/** Path of a program of the PostgreSQL version that the tests use. Throws if it is not installed. */
export function postgresProgram(name: string): string {
  const path = program(name, postgresFolders());
  if (path === null) throw new Error(`${name} is not installed, though PostgreSQL is`);
  return path;
}

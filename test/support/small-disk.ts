import { execFileSync, spawn } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A separate small file system that a test can fill. */
export interface SmallDisk {
  path: string;
  /** Fills the disk, leaving about that many bytes free. */
  fill(leaving?: number): void;
  free(): void;
  remove(): void;
}

interface Mounted {
  path: string;
  unmount(): void;
}

const CHUNK = Buffer.alloc(65_536);

const folder = (): string => mkdtempSync(join(tmpdir(), 'twinkeep-disk-'));
const tmpfs = (megabytes: number, path: string): string[] => [
  ...['mount', '-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0777`],
  ...['tmpfs', path],
];

/** `before` is a command prefix that grants the right to mount. */
function mountedBy(prefix: readonly string[], megabytes: number): Mounted {
  const path = folder();
  const run = ([program = '', ...args]: string[]) => execFileSync(program, args, { stdio: 'pipe' });
  try {
    run([...prefix, ...tmpfs(megabytes, path)]);
  } catch (error) {
    rmSync(path, { recursive: true });
    throw error;
  }
  return {
    path,
    unmount() {
      // A server may keep a dropped table's file open until its next checkpoint.
      run([...prefix, 'umount', '--lazy', path]);
      rmSync(path, { recursive: true });
    },
  };
}

/** Mounts in a new user and mount namespace, reached through a process that stays in it. */
function mountedInNamespace(megabytes: number): Mounted {
  const path = folder();
  const ready = join(path, 'ready');
  const script = `${tmpfs(megabytes, path).join(' ')} && echo > ${ready} && exec sleep infinity`;
  const child = spawn('unshare', ['--user', '--map-root-user', '--mount', 'sh', '-c', script], { stdio: 'ignore' });
  child.on('error', () => {});
  const inside = `/proc/${child.pid}/root${path}`;
  const unmount = (): void => {
    child.kill('SIGKILL');
    rmSync(path, { recursive: true });
  };
  try {
    // Synchronous, because a suite needs the disk while it is collected; two seconds at most.
    execFileSync('sh', ['-c', `for n in $(seq 100); do [ -e ${inside}/ready ] && exit; sleep 0.02; done; exit 1`]);
  } catch (error) {
    unmount();
    throw error;
  }
  rmSync(join(inside, 'ready'));
  return { path: inside, unmount };
}

function mounted(megabytes: number): Mounted | null {
  const methods = [
    () => mountedBy([], megabytes),
    () => mountedBy(['sudo', '--non-interactive'], megabytes),
    () => mountedInNamespace(megabytes),
  ];
  for (const mountBy of methods) {
    try {
      return mountBy();
    } catch {
      // Try the next method.
    }
  }
  return null;
}

/**
 * Null if this process cannot mount a file system. With `REQUIRE_SERVERS=1` this is an error unless `SMALL_DISK=none`
 * is set.
 */
export function smallDisk(megabytes: number): SmallDisk | null {
  const mount = mounted(megabytes);
  if (mount === null) {
    if (process.env.REQUIRE_SERVERS === '1' && process.env.SMALL_DISK !== 'none') {
      throw new Error(
        'REQUIRE_SERVERS=1, but no small file system can be mounted: set SMALL_DISK=none to skip those tests',
      );
    }
    console.warn('no small file system can be mounted: skipping the tests of a full disk');
    return null;
  }
  const filler = join(mount.path, 'filler');
  return {
    path: mount.path,
    fill(leaving = 0) {
      let size = 0;
      for (let chunk = CHUNK; chunk.length > 0; ) {
        try {
          appendFileSync(filler, chunk);
          size += chunk.length;
        } catch {
          chunk = chunk.subarray(0, chunk.length >> 1);
        }
      }
      if (leaving > 0) truncateSync(filler, Math.max(0, size - leaving));
    },
    free: () => rmSync(filler, { force: true }),
    remove: () => mount.unmount(),
  };
}

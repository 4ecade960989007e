import { execFileSync, spawn } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system of its own, small enough to be filled. */
export interface SmallDisk {
  path: string;
  /** Leaves about that many bytes free. */
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

/** As who may mount: `before` is what makes the caller one. */
function mountedBy(before: readonly string[], megabytes: number): Mounted {
  const path = folder();
  const run = ([program = '', ...args]: string[]) => execFileSync(program, args, { stdio: 'pipe' });
  try {
    run([...before, ...tmpfs(megabytes, path)]);
  } catch (error) {
    rmSync(path, { recursive: true });
    throw error;
  }
  return {
    path,
    unmount() {
      // A server may keep a file of a dropped table open until its next checkpoint.
      run([...before, 'umount', '--lazy', path]);
      rmSync(path, { recursive: true });
    },
  };
}

/** In a mount namespace of its user's own, reached through a process that stays in it. */
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
    // It is synchronous, as a suite asks for the disk while it is collected: two seconds at most.
    execFileSync('sh', ['-c', `for n in $(seq 100); do [ -e ${inside}/ready ] && exit; sleep 0.02; done; exit 1`]);
  } catch (error) {
    unmount();
    throw error;
  }
  rmSync(join(inside, 'ready'));
  return { path: inside, unmount };
}

function mounted(megabytes: number): Mounted | null {
  const ways = [
    () => mountedBy([], megabytes),
    () => mountedBy(['sudo', '--non-interactive'], megabytes),
    () => mountedInNamespace(megabytes),
  ];
  for (const way of ways) {
    try {
      return way();
    } catch {
      // The next one may do.
    }
  }
  return null;
}

/** Null where this process can mount none, in no way: then `SMALL_DISK=none` must say so where `REQUIRE_SERVERS=1`. */
export function smallDisk(megabytes: number): SmallDisk | null {
  const mount = mounted(megabytes);
  if (mount === null) {
    if (process.env.REQUIRE_SERVERS === '1' && process.env.SMALL_DISK !== 'none') {
      throw new Error(
        'REQUIRE_SERVERS=1, and no small file system can be mounted: SMALL_DISK=none leaves those tests out',
      );
    }
    console.warn('no small file system can be mounted here: the tests of a full disk are left out');
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

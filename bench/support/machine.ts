import { execFileSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { cpus, release, tmpdir, totalmem, type } from 'node:os';
import { fileURLToPath } from 'node:url';

// Magic numbers of statfs(2). A durable write to a file system in memory would be meaningless.
const fileSystems: Record<number, string> = {
  61267: 'ext4',
  1481003842: 'xfs',
  2435016766: 'btrfs',
  801189825: 'zfs',
  2035054128: 'overlayfs',
  16914836: 'tmpfs',
};

/** Prints the machine of the measurements, the first line of every benchmark's output. */
export function printMachine(): void {
  const all = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  const { type: magic } = statfsSync(tmpdir());
  console.log(
    `machine: ${all.length} × ${all[0]?.model.trim() ?? 'unknown'}, ${memory} GiB, ${type()} ${release()}, ` +
      `temporary files on ${fileSystems[magic] ?? `file system ${magic}`}; Node ${process.version}; commit ${commit()}`,
  );
}

function commit(): string {
  try {
    const cwd = fileURLToPath(new URL('.', import.meta.url));
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd, stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim();
  } catch {
    return 'unknown';
  }
}

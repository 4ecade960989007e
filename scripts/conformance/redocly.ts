import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const cli = join(dirname(createRequire(import.meta.url).resolve('@redocly/cli/package.json')), 'bin/cli.js');
/** Folder of `redocly.yaml`. */
const cwd = new URL('../..', import.meta.url).pathname;

export interface RedoclyProcess {
  /** Output lines so far. */
  lines: string[];
  /** Resolves when an output line matches. */
  waitForOutput(pattern: RegExp): Promise<void>;
  stop(): void;
  ended: Promise<number>;
}

/** Starts a command of Redocly with this project's configuration, without update checks and telemetry. */
export function startRedocly(command: string, args: readonly string[], show = true): RedoclyProcess {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', NO_COLOR: '1' };
  const child = spawn(process.execPath, [cli, command, ...args], {
    env,
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  let onOutput: () => void = () => {};
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      lines.push(...chunk.toString().split('\n'));
      if (show) process.stdout.write(chunk);
      onOutput();
    });
  }
  const ended = once(child, 'close').then(([code]) => (typeof code === 'number' ? code : 1));
  return {
    lines,
    ended,
    stop: () => void child.kill('SIGINT'),
    waitForOutput: (pattern) =>
      new Promise((resolve, reject) => {
        onOutput = () => {
          if (lines.some((line) => pattern.test(line))) resolve();
        };
        onOutput();
        ended.then((code) => reject(new Error(`redocly ${command} ended with ${code}`)), reject);
      }),
  };
}

/** Runs a command to its end; throws if it fails. */
export async function runRedocly(command: string, ...args: string[]): Promise<void> {
  const code = await startRedocly(command, args).ended;
  if (code !== 0) throw new Error(`redocly ${command} reported problems`);
}

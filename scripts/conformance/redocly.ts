import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const cli = join(dirname(createRequire(import.meta.url).resolve('@redocly/cli/package.json')), 'bin/cli.js');
/** Where `redocly.yaml` is found. */
const cwd = new URL('../..', import.meta.url).pathname;

export interface RedoclyProcess {
  /** What it says. */
  lines: string[];
  /** Once it says something that matches. */
  waitForOutput(words: RegExp): Promise<void>;
  stop(): void;
  ended: Promise<number>;
}

/** A command of Redocly's, with our configuration; it neither asks for updates nor tells anybody of its use. */
export function startRedocly(command: string, args: readonly string[], show = true): RedoclyProcess {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', NO_COLOR: '1' };
  const child = spawn(process.execPath, [cli, command, ...args], {
    env,
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  let heard: () => void = () => {};
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      lines.push(...chunk.toString().split('\n'));
      if (show) process.stdout.write(chunk);
      heard();
    });
  }
  const ended = once(child, 'close').then(([code]) => (typeof code === 'number' ? code : 1));
  return {
    lines,
    ended,
    stop: () => void child.kill('SIGINT'),
    waitForOutput: (words) =>
      new Promise((resolve, reject) => {
        heard = () => {
          if (lines.some((line) => words.test(line))) resolve();
        };
        heard();
        ended.then((code) => reject(new Error(`redocly ${command} ended with ${code}`)), reject);
      }),
  };
}

/** Runs a command to its end. */
export async function runRedocly(command: string, ...args: string[]): Promise<void> {
  const code = await startRedocly(command, args).ended;
  if (code !== 0) throw new Error(`redocly ${command} found something`);
}

import { type ChildProcess, spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import { makeIo } from '../../src/cli/io.ts';
import { run } from '../../src/cli/run.ts';
import { nodeEnv, nodeFlags } from './node-flags.ts';

/** Result of a command-line process; `code` is null while it runs. */
export interface CliResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** The command line in a child process. */
export interface CliProcess {
  child: ChildProcess;
  /** Output so far. */
  output: CliResult;
  ended: Promise<CliResult>;
}

/** `env` is the whole environment, besides `PATH`. The process reads `input` from stdin. */
export function startCli(args: readonly string[], env: Record<string, string>, input = ''): CliProcess {
  return startChild([process.execPath, ...nodeFlags, 'src/cli/main.ts', ...args], env, input);
}

/** The same on a pseudo-terminal: everything that it writes is in `output.stdout`. SIGTERM ends it. */
export function startCliOnTerminal(args: readonly string[], env: Record<string, string>): CliProcess {
  const command = ['exec', process.execPath, ...nodeFlags, 'src/cli/main.ts', ...args].join(' ');
  return startChild(['script', '--quiet', '--return', '--command', command, '/dev/null'], env, null);
}

function startChild([program = '', ...args]: string[], env: Record<string, string>, input: string | null): CliProcess {
  const child = spawn(program, args, {
    env: { ...nodeEnv, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const output: CliResult = { code: null, stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (output.stdout += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (output.stderr += chunk));
  // The process may end without reading.
  child.stdin.on('error', () => {});
  if (input !== null) child.stdin.end(input);
  const ended = new Promise<CliResult>((resolve) => {
    child.once('close', (code) => resolve(Object.assign(output, { code })));
  });
  return { child, output, ended };
}

export const runCli = (args: readonly string[], env: Record<string, string>, input?: string): Promise<CliResult> =>
  startCli(args, env, input).ended;

/**
 * The command line in this process, for commands that do not use signals or the environment. Without `terminal` its output is
 * not a terminal; `columns` is the width of the terminal.
 */
export async function runCliInProcess(
  args: readonly string[],
  {
    url,
    token,
    input = '',
    terminal = false,
    columns,
  }: { url: string; token: string; input?: string; terminal?: boolean; columns?: number },
): Promise<CliResult> {
  const result: CliResult = { code: null, stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => {
    const stream = new Writable({
      write(chunk, _encoding, done) {
        result[name] += chunk;
        done();
      },
    });
    return Object.assign(stream, { isTTY: terminal, ...(columns !== undefined && { columns }) });
  };
  const [stdout, stderr] = [into('stdout'), into('stderr')];
  const io = makeIo({ stdin: Readable.from([Buffer.from(input)]), stdout, stderr });
  result.code = await run(io, ['--url', url, '--token', token, ...args]);
  return result;
}

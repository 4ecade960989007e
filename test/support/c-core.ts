import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/*
 * The core of a device in C (devices/c), compiled with all warnings as errors and with the sanitizers of addresses and
 * undefined behaviour, which end the process at the first fault.
 */

const run = promisify(execFile);
export const coreFolder = fileURLToPath(new URL('../../devices/c', import.meta.url));
export const coreSources = (): string[] => globSync('*.c', { cwd: coreFolder }).map((name) => join(coreFolder, name));

export const strictFlags = ['-std=c99', '-Wall', '-Wextra', '-Werror', '-pedantic'];
export const sanitizerFlags = ['-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'];

/** Runs the compiler; an error has its messages. */
export async function compileC(gcc: string, args: readonly string[]): Promise<void> {
  try {
    await run(gcc, [...args]);
  } catch (error) {
    throw new Error(`${(error as { stderr?: string }).stderr ?? error}`);
  }
}

const hex = (argument: string | Uint8Array): string => Buffer.from(argument).toString('hex') || '-';

/** Text of a result in hex. */
export const fromHex = (word = '-'): string => (word === '-' ? '' : Buffer.from(word, 'hex').toString());

/** The compiled test/devices/c/driver.c: one process that answers each call with a line. */
export class CoreProcess {
  readonly #child: ChildProcess;
  readonly #answers: { resolve: (line: string) => void; reject: (error: Error) => void }[] = [];
  #errors = '';

  private constructor(program: string) {
    const child = spawn(program, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child = child;
    createInterface({ input: child.stdout }).on('line', (line) => this.#answers.shift()?.resolve(line));
    child.stderr.on('data', (chunk: Buffer) => (this.#errors += chunk));
    child.stdin.on('error', () => {});
    child.once('close', () => {
      for (const { reject } of this.#answers.splice(0)) reject(new Error(`the core ended: ${this.#errors}`));
    });
  }

  /** Compiles the core with the driver in `folder`, and starts it. */
  static async start(gcc: string, folder: string, flags: readonly string[] = []): Promise<CoreProcess> {
    const driver = fileURLToPath(new URL('../devices/c/driver.c', import.meta.url));
    const program = join(folder, 'driver');
    await compileC(gcc, [...strictFlags, ...sanitizerFlags, ...flags, '-o', program, driver, ...coreSources()]);
    return new CoreProcess(program);
  }

  /** The words of the answer. Rejects with the report of a sanitizer if the process ends. */
  call(name: string, ...args: (string | number | Uint8Array)[]): Promise<string[]> {
    const words = args.map((argument) => hex(typeof argument === 'number' ? `${argument}` : argument));
    return new Promise((resolve, reject) => {
      this.#answers.push({ resolve: (line) => resolve(line.split(' ')), reject });
      this.#child.stdin?.write(`${[name, ...words].join(' ')}\n`);
    });
  }

  stop(): void {
    this.#child.kill();
  }
}

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { refusals } from '../../src/domain/refusals.ts';
import { eventually } from './clock.ts';
import { nodeEnv } from './node-flags.ts';
import { startService, type TestService } from './service.ts';

/*
 * Runs the `console` blocks of a document as a reader would: in one shell, from the top to the bottom, in a folder that
 * looks like a checkout. A command must succeed, and its HTTP requests too, unless the document shows a refusal.
 */

/** A command after `$ `, and the output that the document shows for it. */
export interface DocumentedCommand {
  /** Line of the document, from 1. */
  line: number;
  command: string;
  /** Empty if the document shows none. `…` stands for any text, and white space does not count. */
  shown: string;
}

export interface CommandResult {
  /** What a terminal would show. */
  output: string;
  exitCode: number;
  /** Status codes of the responses that `curl` received. */
  statuses: number[];
}

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Separates the output of a command from its exit code. */
const END = '\u001e';

export const readDocument = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** The content of the n-th code block of a language, from 0. */
export function codeBlock(document: string, language: string, n = 0): string {
  const blocks = [...document.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))];
  const block = blocks[n]?.[1];
  if (block === undefined) throw new Error(`the document has no ${language} block number ${n}`);
  return block;
}

/** The commands of all `console` blocks, in order. A command goes on until it is complete shell syntax. */
export function documentedCommands(document: string): DocumentedCommand[] {
  const commands: DocumentedCommand[] = [];
  let block = false;
  let current: DocumentedCommand | null = null;
  for (const [index, text] of document.split('\n').entries()) {
    if (text.startsWith('```')) {
      block = text === '```console';
      current = null;
    } else if (!block) continue;
    else if (current !== null && current.shown === '' && !isComplete(current.command)) current.command += `\n${text}`;
    else if (text.startsWith('$ ')) {
      current = { line: index + 1, command: text.slice(2), shown: '' };
      commands.push(current);
    } else if (current !== null) current.shown += `${text}\n`;
  }
  return commands;
}

function isComplete(command: string): boolean {
  const { status, stderr } = spawnSync('bash', ['-n'], { input: `${command}\n`, encoding: 'utf8' });
  return status === 0 && !stderr.includes('here-document') && !command.endsWith('\\');
}

/** Why a result is not what the document shows; null if it is. */
export function difference({ shown }: DocumentedCommand, result: CommandResult): string | null {
  const { output, exitCode, statuses } = result;
  const failed = exitCode !== 0 || statuses.some((status) => status >= 400);
  if (failed && !announcesRefusal(shown)) return `failed (exit ${exitCode}, HTTP ${statuses.join(', ')}): ${output}`;
  if (shown !== '' && !patternOf(shown).test(compact(output))) return `the output differs: ${output}`;
  return null;
}

const announcesRefusal = (shown: string): boolean => Object.keys(refusals).some((code) => shown.includes(code));

const compact = (text: string): string => text.replace(/\s/g, '');

const patternOf = (shown: string): RegExp => new RegExp(`^${compact(shown).split('…').map(escaped).join('[^]*?')}$`);

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Counts the responses of `curl` also where its output is piped or captured. */
const PROLOGUE = `
exec 2>&1
set -o pipefail
curl() { command curl --dump-header "$(mktemp "$HTTP_RESPONSES/XXXXXXXX")" "$@"; }
export -f curl
`;

/**
 * Fills a folder with the entries of the checkout, without its data, and with the device library as `twinkeep/device`.
 * `files` are those that a reader copies from the document, by name.
 */
function copyCheckout(folder: string, files: Record<string, string>): void {
  for (const entry of readdirSync(ROOT)) {
    if (!['.git', 'data', 'package.json'].includes(entry)) symlinkSync(join(ROOT, entry), join(folder, entry));
  }
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  // As built: the package's entry points are in dist/, which a checkout does not have.
  manifest.exports = { './device': './src/device/device.ts' };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
}

/** `node` is the one that runs the tests. */
const readerEnv = (folder: string): Record<string, string> => ({
  ...nodeEnv,
  PATH: `${dirname(process.execPath)}${delimiter}${nodeEnv.PATH}`,
  HOME: folder,
});

/** Simulated devices draw no manual use, such as an opened door, during a session. */
const NO_MANUAL_USE = '--import=data:text/javascript,Math.random=()=>0.5';

/** A shell in a folder that looks like a checkout. */
export class DocumentedSession {
  readonly folder: string;
  readonly #responses: string;
  readonly #shell: ChildProcess;
  #output = '';
  #ended = false;
  #onOutput = (): void => {};

  constructor(folder: string, env: Record<string, string>) {
    this.folder = folder;
    this.#responses = join(folder, '.responses');
    mkdirSync(this.#responses);
    this.#shell = spawn('bash', ['--norc', '--noprofile'], {
      cwd: folder,
      env: { ...readerEnv(folder), NODE_OPTIONS: NO_MANUAL_USE, HTTP_RESPONSES: this.#responses, ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
      // A process group, so that what a document starts in the background ends with the session.
      detached: true,
    });
    this.#shell.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#output += text;
      this.#onOutput();
    });
    this.#shell.once('close', () => {
      this.#ended = true;
      this.#onOutput();
    });
    this.#shell.stdin?.write(PROLOGUE);
  }

  /** Runs a command in the session's shell, with its variables and functions. */
  async run(command: string): Promise<CommandResult> {
    const script = join(this.folder, '.command');
    writeFileSync(script, `${command}\n`);
    this.#output = '';
    this.#shell.stdin?.write(`. "${script}"\nprintf '${END}%s${END}' $?\n`);
    const [, output = '', exitCode = ''] = await new Promise<RegExpExecArray>((resolve, reject) => {
      this.#onOutput = () => {
        const found = new RegExp(`^([^]*)${END}(\\d+)${END}$`).exec(this.#output);
        if (found !== null) resolve(found);
        else if (this.#ended) reject(new Error(`the shell ended: ${this.#output}`));
      };
      this.#onOutput();
    });
    return { output, exitCode: Number(exitCode), statuses: this.#takeStatuses() };
  }

  close(): void {
    const { pid } = this.#shell;
    if (pid !== undefined && !this.#ended) process.kill(-pid, 'SIGKILL');
  }

  #takeStatuses(): number[] {
    return readdirSync(this.#responses).flatMap((name) => {
      const file = join(this.#responses, name);
      const text = readFileSync(file, 'utf8');
      rmSync(file);
      const status = [...text.matchAll(/^HTTP\/\S+ (\d{3})/gm)].at(-1)?.[1];
      return status === undefined ? [] : [Number(status)];
    });
  }
}

/** Addresses of the service in documents. */
const DOCUMENTED_URL = 'http://127.0.0.1:8080';
const DOCUMENTED_MQTT_URL = 'mqtt://127.0.0.1:1883';

/** A running service, and what a session needs to reach it. */
interface DocumentedService {
  url: string;
  mqttUrl: string;
  env: Record<string, string>;
  stop(): Promise<void>;
}

async function startInProcess({ env = {}, isReady }: DocumentTest): Promise<DocumentedService> {
  const at = await startService(env);
  if (isReady !== undefined) await eventually(() => isReady(at));
  const { url, dataDir, service, stop } = at;
  return { url, mqttUrl: service.mqttUrl() ?? '', env: { DATA_DIR: dataDir, TWINKEEP_URL: url }, stop };
}

export interface DocumentTest {
  /** Environment of the service in this process. */
  env?: Record<string, string>;
  /** Files that a reader copies from the document, by name. */
  files?: Record<string, string>;
  /** Whether the service in this process is ready for the first command; by default when it has started. */
  isReady?(at: TestService): boolean;
  /** A document whose commands are run afterwards, in the same session. */
  followedBy?: string;
}

/** Tests every command of a document, in order, against a new service. */
export function testDocument(path: string, options: DocumentTest = {}): void {
  const { files = {}, followedBy } = options;
  const { curl, jq } = inject('programs');
  const commands = [path, ...(followedBy === undefined ? [] : [followedBy])].flatMap((document) =>
    documentedCommands(readDocument(document)).map((command) => ({ ...command, document })),
  );

  describe.runIf(curl !== null && jq !== null)(path, () => {
    let at: DocumentedService | undefined;
    let session: DocumentedSession | undefined;
    const folder = mkdtempSync(join(tmpdir(), 'twinkeep-document-'));
    beforeAll(async () => {
      copyCheckout(folder, files);
      at = await startInProcess(options);
      session = new DocumentedSession(folder, at.env);
    });
    afterAll(async () => {
      session?.close();
      await at?.stop();
      rmSync(folder, { recursive: true, force: true });
    });

    /** Line of a command that did not end: the shell runs nothing after it. */
    let hanging: number | null = null;
    const local = (text: string) =>
      text.replaceAll(DOCUMENTED_URL, at?.url ?? '').replaceAll(DOCUMENTED_MQTT_URL, at?.mqttUrl ?? '');
    it.each(commands)('has in $document on line $line a command with the documented result', async (documented) => {
      if (hanging !== null) throw new Error(`not run, because the command on line ${hanging} did not end`);
      hanging = documented.line;
      const result = await session?.run(local(documented.command));
      hanging = null;
      if (result === undefined) throw new Error('the session did not start');
      expect(difference({ ...documented, shown: local(documented.shown) }, result)).toBeNull();
    });
  });
}

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { completionScripts } from '../../../src/cli/completion.ts';
import { runCliInProcess } from '../../support/cli.ts';
import { eventually } from '../../support/clock.ts';
import { register } from '../../support/device.ts';
import { nodeEnv, nodeFlags } from '../../support/node-flags.ts';
import { startService, type TestService } from '../../support/service.ts';

const folder = mkdtempSync(join(tmpdir(), 'twinkeep-completion-'));
afterAll(() => rmSync(folder, { recursive: true }));

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** The completions of bash for the last of `words`, which are as typed. */
async function inBash(words: readonly string[], env: Record<string, string>): Promise<string[]> {
  const program = [process.execPath, ...nodeFlags, resolve('src/cli/main.ts')].map(quoted).join(' ');
  // As `source <(twinkeep completion bash)`, without a process for it.
  const script = `
    twinkeep() { ${program} "$@"; }
    ${completionScripts.bash}
    # The name of the function that bash calls.
    completer=$(complete -p twinkeep); completer=\${completer##*-F }; completer=\${completer%% *}
    COMP_WORDS=(twinkeep ${words.map(quoted).join(' ')})
    COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 ))
    $completer twinkeep
    (( \${#COMPREPLY[@]} == 0 )) || printf '%s\\n' "\${COMPREPLY[@]}"
  `;
  const file = join(folder, 'completion.bash');
  writeFileSync(file, script);
  const { stdout, stderr } = await promisify(execFile)('bash', ['--norc', file], { env: { ...nodeEnv, ...env } });
  expect(stderr).toBe('');
  return stdout.split('\n').slice(0, -1);
}

describe('completion in bash', () => {
  let at: TestService;
  let env: Record<string, string>;
  beforeAll(async () => {
    at = await startService();
    const owner = await at.owner();
    env = { TWINKEEP_URL: at.url, TWINKEEP_TOKEN: owner.token };
    for (const name of ['Desk lamp', 'Door; $(ls)', 'Gate:12', '--url=http://example.com'])
      await register(owner, { name, device_type: 'smart_light' });
  });
  afterAll(() => at?.stop());

  it('has verbs and options', async () => {
    expect(await inBash(['devi'], env)).toEqual(['devices']);
    expect(await inBash(['devices', 'list', '--re'], env)).toEqual(['--revoked']);
  });

  it('has the names of devices, quoted for the shell', async () => {
    // The service may need more than the time limit on a busy machine.
    const namesFor = (...words: string[]) =>
      eventually(async () => {
        const found = await inBash(words, env);
        return found.length > 0 ? found : null;
      });
    expect((await namesFor('command', 'd')).toSorted()).toEqual(['Desk\\ lamp', 'Door\\;\\ \\$\\(ls\\)']);
    expect(await namesFor('command', 'Desk\\ l')).toEqual(['Desk\\ lamp']);
    expect(await namesFor('command', '"Desk l')).toEqual(['Desk lamp']);
    // Bash inserts these after the open quote, as they are.
    expect(await namesFor('command', '"Door; ')).toEqual(['Door; \\$(ls)']);
    expect(await namesFor('command', "'Door; ")).toEqual(['Door; $(ls)']);
    // Bash divides words at a colon, and replaces the last of them.
    expect(await namesFor('command', 'Gate', ':', '1')).toEqual(['12']);
    const [scheme = '', host = '', port = ''] = at.url.split(':');
    const elsewhere = { ...env, TWINKEEP_URL: 'http://127.0.0.1:1' };
    const words = ['--url', scheme, ':', host, ':', port, 'command', 'Gate', ':', '1'];
    expect(await eventually(async () => (await inBash(words, elsewhere))[0])).toBe('12');
    // A name that the shell would insert as an option is not among them.
    expect(await inBash(['command', '--url'], env)).toEqual(['--url']);
  });

  it('has the actions of the device that is named before', async () => {
    const first = (...words: string[]) => eventually(async () => (await inBash(words, env))[0]);
    expect(await first('command', 'Desk\\ lamp', 'set_b')).toBe('set_brightness');
    expect(await inBash(['command', 'Desk\\ lamp', 'unl'], env)).toEqual([]);
    // The argument before is no device.
    expect(await inBash(['groups', 'command', 'Desk\\ lamp', 'set_b'], env)).toEqual([]);
  });

  it('has no names and no errors without a token, and if the token is refused', async () => {
    const stored = { TWINKEEP_CREDENTIALS: join(folder, 'missing.json') };
    for (const token of ['', 'x']) {
      expect(await inBash(['command', 'd'], { ...env, ...stored, TWINKEEP_TOKEN: token })).toEqual([]);
    }
  });

  it('has no names if the service does not answer', async () => {
    const connections = new Set<{ destroy(): void }>();
    const silent = createServer((socket) => void connections.add(socket)).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as { port: number };
    try {
      // A request without a limit takes as long as the test may take.
      expect(await inBash(['command', 'd'], { ...env, TWINKEEP_URL: `http://127.0.0.1:${port}` })).toEqual([]);
      expect(connections.size).toBeGreaterThan(0);
    } finally {
      for (const socket of connections) socket.destroy();
      silent.close();
    }
  });
});

it('twinkeep completion prints the script of a shell', async () => {
  for (const [shell, script] of Object.entries(completionScripts)) {
    const { code, stdout } = await runCliInProcess(['completion', shell], { url: 'http://127.0.0.1:1', token: 'x' });
    expect([code, stdout]).toEqual([0, script]);
  }
  expect((await runCliInProcess(['completion', 'tcsh'], { url: 'http://127.0.0.1:1', token: 'x' })).code).toBe(2);
});

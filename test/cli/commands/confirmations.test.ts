import { PassThrough } from 'node:stream';
import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Io } from '../../../src/cli/io.ts';
import { makeProgram } from '../../../src/cli/program.ts';
import { makeColors, renderLine } from '../../../src/cli/terminal-text.ts';
import { runCliInProcess } from '../../support/cli.ts';
import { eventually } from '../../support/clock.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let lock: string;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  lock = (await mine.register({ device_type: 'door_lock', name: 'Front door' })).device_id;
  await mine.connect(lock);
  await mine.report(lock, { locked: true });
  mine.disconnect(lock);
});
afterAll(() => service.close());

const unlock = async () => (await mine.call('POST', `/device/${lock}/command`, { action: 'unlock' })).body;
const statusOf = async (id: string) => (await mine.call('GET', `/commands/${id}`)).body.command;

/** The command line without a terminal. */
const run = (...args: string[]) => runCliInProcess(args, { url: service.url, token: mine.tokens.admin });

/** The command line in this process, with simulated terminal input. */
function atTerminal(...args: string[]) {
  const lines: { out: string[]; output: string[] } = { out: [], output: [] };
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  let requested = '';
  stderr.on('data', (chunk) => (requested += chunk));
  const colours = makeColors(false);
  const io: Io = {
    out: (line) => void lines.out.push(renderLine(line)),
    err: (line) => void lines.output.push(renderLine(line)),
    writeOut: (text) => void lines.out.push(text),
    writeErr: (text) => void lines.output.push(text),
    display: { wide: false, utc: false },
    utf8: true,
    ...{ outColors: colours, errColors: colours, stdout, stderr, stdin: Object.assign(stdin, { isTTY: true }) },
  };
  const given = ['--url', service.url, '--token', mine.tokens.admin, ...args];
  const ended = makeProgram(io).parseAsync(given, { from: 'user' });
  ended.catch(() => {});
  return { lines, ended, stdin, requested: () => eventually(() => requested.includes('[y/N]')) };
}

describe('twinkeep confirmations', () => {
  it('lists pending commands with their changes, and prints "none" without any', async () => {
    const nothing = await run('confirmations');
    expect(nothing).toEqual({ code: 0, stdout: '', stderr: 'none\n' });
    const { command_id, expires_at } = await unlock();
    const { code, stdout } = await run('confirmations', 'list');
    expect(code).toBe(0);
    const [heads, row] = stdout.trim().split('\n');
    expect(heads).toMatch(/^COMMAND +DEVICE +ACTION +PARAMS +CHANGES +EXPIRES$/);
    expect(row?.split(/ {2,}/)).toEqual([command_id, 'Front door', 'unlock', '{}', 'locked: true → false', expires_at]);
    const json = JSON.parse((await run('confirmations', '--json')).stdout);
    expect(json).toMatchObject({ confirmations: [{ command_id }], next_cursor: null });
  });

  it('lists the present name of a device that had none when the command was requested, and its id with --json', async () => {
    const gate = (await mine.register({ device_type: 'door_lock' })).device_id;
    await mine.call('POST', `/device/${gate}/command`, { action: 'unlock' });
    const listed = async () => (await run('confirmations')).stdout.split('\n')[1]?.split(/ {2,}/)[1];
    expect(await listed()).toBe(gate);
    await mine.call('PATCH', `/devices/${gate}`, { name: 'Garden gate' });
    expect(await listed()).toBe('Garden gate');
    const { confirmations } = JSON.parse((await run('confirmations', '--json')).stdout);
    expect(confirmations).toMatchObject([{ device_id: gate }]);
  });

  it('lists and approves dry runs, apart from the other commands', async () => {
    const sent = await mine.call('POST', `/device/${lock}/command`, { action: 'lock', dry_run: true });
    const { command_id } = sent.body;
    expect(JSON.parse((await run('confirmations', 'list', '--json')).stdout).confirmations).toEqual([]);
    const listed = JSON.parse((await run('confirmations', 'list', '--dry-runs', '--json')).stdout);
    expect(listed).toMatchObject({ confirmations: [{ command_id }] });
    const { ended, stdin, requested } = atTerminal('confirmations', 'approve', command_id);
    await requested();
    stdin.write('y\n');
    await ended;
    expect(await statusOf(command_id)).toMatchObject({ status: 'dispatched' });
  });

  it('approves without a prompt with --yes', async () => {
    const { command_id } = await unlock();
    expect(await run('confirmations', 'approve', command_id, '--yes')).toEqual({
      code: 0,
      stdout: `${command_id}\n`,
      stderr: '',
    });
    expect(await statusOf(command_id)).toMatchObject({ status: 'dispatched' });
    const again = await run('confirmations', 'approve', command_id, '--yes');
    expect([again.code, again.stderr.slice(0, 22)]).toEqual([1, '409 ILLEGAL_TRANSITION']);
  });

  it('sends nothing without a terminal to prompt on', async () => {
    const { command_id } = await unlock();
    const { code, stdout, stderr } = await run('confirmations', 'approve', command_id);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('give --yes');
    expect(await statusOf(command_id)).toMatchObject({ status: 'awaiting_confirmation' });
  });

  it('prints the changes on a terminal and sends the command after yes', async () => {
    const { command_id, expires_at } = await unlock();
    for (const yes of ['y', 'YES']) {
      const { command_id: waiting } = yes === 'y' ? { command_id } : await unlock();
      const { lines, ended, stdin, requested } = atTerminal('confirmations', 'approve', waiting);
      await requested();
      expect(lines.output[0]).toBe(`unlock {} on Front door (${lock})`);
      expect(lines.output[1]).toBe('  locked: true → false');
      expect(lines.output[2]).toContain(mine.userId);
      expect(lines.output[2]).toContain(expires_at);
      expect(await statusOf(waiting)).toMatchObject({ status: 'awaiting_confirmation' });
      stdin.write(`${yes}\n`);
      await ended;
      expect(lines.out).toEqual([waiting]);
      expect(await statusOf(waiting)).toMatchObject({ status: 'dispatched' });
    }
  });

  it('sends nothing for other input, for Enter, and for the end of the input', async () => {
    const { command_id } = await unlock();
    for (const word of ['n\n', '\n', 'yellow\n', null]) {
      const { ended, stdin, requested } = atTerminal('confirmations', 'approve', command_id);
      await requested();
      if (word === null) stdin.end();
      else stdin.write(word);
      await expect(ended).rejects.toThrow('not approved');
    }
    expect(await statusOf(command_id)).toMatchObject({ status: 'awaiting_confirmation' });
  });

  it('escapes control characters in text that a device wrote', async () => {
    await mine.connect(lock);
    await mine.report(lock, { locked: '\u001b[2J\u009b2J\u202eeslaf' });
    mine.disconnect(lock);
    const { command_id } = await unlock();
    const { lines, ended, stdin, requested } = atTerminal('confirmations', 'approve', command_id);
    await requested();
    expect(lines.output[1]).toBe('  locked: "\\u001b[2J\\u{9b}2J\\u{202e}eslaf" → false');
    stdin.end();
    await expect(ended).rejects.toThrow();
  });

  it('reports why there is nothing to show: the command has ended, or does not exist', async () => {
    const { command_id } = await unlock();
    await mine.call('POST', `/confirmations/${command_id}/refuse`);
    await expect(atTerminal('confirmations', 'approve', command_id).ended).rejects.toThrow(
      'the command is cancelled, not awaiting confirmation',
    );
    await expect(atTerminal('confirmations', 'approve', v7()).ended).rejects.toThrow('Command not found.');
  });

  it('refuses with a reason', async () => {
    const { command_id } = await unlock();
    expect(await run('confirmations', 'refuse', command_id, '--reason', 'Nobody is at home.')).toEqual({
      code: 0,
      stdout: 'cancelled\n',
      stderr: '',
    });
    const { status, timeline } = await statusOf(command_id);
    expect([status, timeline.at(-1).reason]).toEqual(['cancelled', 'Nobody is at home.']);
  });
});

describe('twinkeep policy', () => {
  it('shows the policy and changes it', async () => {
    expect((await run('policy')).stdout).toBe(
      'confirm_by        requester\nagent_confirm_by  person\nconfirm_ttl_s     300\n',
    );
    const set = await run('policy', 'set', '--confirm-by', 'person', '--confirm-ttl', '2m', '--json');
    expect(JSON.parse(set.stdout)).toEqual({
      policy: { confirm_by: 'person', agent_confirm_by: 'person', confirm_ttl_s: 120 },
    });
    expect(JSON.parse((await run('policy', 'show', '--json')).stdout)).toEqual(JSON.parse(set.stdout));
    const looser = await run('policy', 'set', '--confirm-by', 'requester');
    expect([looser.code, looser.stdout]).toEqual([1, expect.stringContaining('twinkeep changes approve')]);
    const change = /changes approve (\S+)/.exec(looser.stdout)?.[1] as string;
    expect((await run('changes', 'approve', change, '--yes')).stdout).toBe('applied\n');
    expect((await run('policy')).stdout).toContain('requester');
  });

  it('ends with 2 for invalid options, and with 1 for a refusal of the service', async () => {
    for (const args of [[], ['--confirm-by', 'anybody'], ['--confirm-ttl', 'long']]) {
      expect((await run('policy', 'set', ...args)).code).toBe(2);
    }
    const short = await run('policy', 'set', '--confirm-ttl', '59s');
    expect([short.code, short.stderr.slice(0, 21)]).toEqual([1, '400 VALIDATION_FAILED']);
  });
});

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { columnsOf, fitColumns, makeColors, renderLine } from '../../src/cli/terminal-text.ts';
import { runCliInProcess } from '../support/cli.ts';
import { register } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';

const zone = process.env.TZ;
const ESC = String.fromCharCode(27);
const STYLES = new RegExp(`${ESC}\\[\\d+m`, 'g');

describe('a table', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let id: string;
  const name = 'Reading lamp in the corner 灯 💡 at the window';
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
    id = (await register(owner, { name })).device_id;
  });
  afterAll(() => at?.stop());
  beforeEach(() => {
    process.env.TZ = 'Asia/Kathmandu';
  });
  afterEach(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });

  const run = async (terminal: { terminal?: boolean; columns?: number }, ...args: string[]) =>
    (await runCliInProcess(args, { url: at.url, token: owner.token, ...terminal })).stdout.replace(STYLES, '');

  it('fits the width of the terminal, with an ellipsis', async () => {
    for (const columns of [200, 80, 60, 40, 20]) {
      const lines = (await run({ terminal: true, columns }, 'devices')).trimEnd().split('\n');
      for (const line of lines) expect(columnsOf(line)).toBeLessThanOrEqual(columns);
      expect(lines[1]?.includes('…')).toBe(columns < 100);
    }
    const [, line = ''] = (await run({ terminal: true, columns: 60 }, 'devices')).split('\n');
    expect(id.startsWith(line.split('…')[0] ?? '')).toBe(true);
  });

  it('is as wide as its texts with --wide, and in a pipe', async () => {
    for (const [terminal, ...args] of [[true, '--wide'], [false]] as const) {
      const stdout = await run({ terminal, columns: 40 }, 'devices', ...args);
      expect(stdout).toContain(`${id}  ${name}`);
    }
  });

  it('has local times on a terminal, UTC with --utc, and the texts of the service in a pipe', async () => {
    const [{ created_at: time }] = JSON.parse(await run({}, 'homes', '--json')).homes;
    const local = new Date(Date.parse(time) + 345 * 60_000).toISOString();
    const plain = (text: string) => `${text.slice(0, 10)} ${text.slice(11, 19)}`;
    expect(await run({ terminal: true }, 'homes')).toContain(`  ${plain(local)}\n`);
    expect(await run({ terminal: true }, 'homes', '--utc')).toContain(`  ${plain(time)}Z\n`);
    expect(await run({}, 'homes')).toContain(`  ${time}\n`);
    expect(await run({ terminal: true, columns: 30 }, 'homes', '--json')).toContain(time);
  });
});

describe('the columns of a text', () => {
  it.each([
    ['abc', 3],
    ['Büro', 4],
    ['e\u0301', 1],
    ['灯', 2],
    ['💡', 2],
    ['👩‍👩‍👧', 2],
    [makeColors(true).red('abc'), 3],
  ])('of %j are %i', (text, columns) => expect(columnsOf(text)).toBe(columns));

  it('are limited with an ellipsis, and a style ends behind it', () => {
    expect(fitColumns('abcdef', 6)).toBe('abcdef');
    expect(fitColumns('abcdef', 4)).toBe('abc…');
    expect(fitColumns('灯灯灯', 4)).toBe('灯…');
    expect(renderLine(fitColumns(makeColors(true).red('offline'), 4))).toBe(`${ESC}[31moff…${ESC}[39m`);
  });
});

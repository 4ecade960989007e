import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

/* The tables of docs/scaling.md are computed from its table of costs. After a change of a cost the failures show the new figures. */

const page = readFileSync(fileURLToPath(new URL('../docs/scaling.md', import.meta.url)), 'utf8');

/** The cells of the row that starts with this text, without it. */
function cellsOf(start: string, from = 0): string[] {
  const at = page.indexOf(`\n| ${start} |`, from);
  expect(at, start).toBeGreaterThan(0);
  const [row = ''] = page.slice(at + 1).split('\n', 1);
  return row
    .split('|')
    .slice(2, -1)
    .map((cell) => cell.trim());
}

const cost = (symbol: string) => {
  const [, message, command] = cellsOf(`\`${symbol}\``);
  return { message: Number(message), command: Number(command) };
};
const [S, H, D, W] = [cost('S'), cost('H'), cost('D'), cost('W')];
/** Core-microseconds of one core in a second, used to 60 %. */
const CORE = 0.6 * 1_000_000;

const rate = (kind: 'message' | 'command', n: number) => (CORE * n) / (S[kind] + (H[kind] * (n - 1)) / n);
/** Two digits, with separators of thousands. */
const shown = (value: number): string => Number(value.toPrecision(2)).toLocaleString('en-US');
/** MB a second. */
const log = (kind: 'message' | 'command', perSecond: number) => (perSecond * W[kind]) / 1_000;

describe('docs/scaling.md', () => {
  it('has every cost', () => {
    for (const { message, command } of [S, H, D, W]) {
      expect(message).toBeGreaterThan(0);
      expect(command).toBeGreaterThan(0);
    }
  });

  it('computes what cores carry from the costs', () => {
    const cores = cellsOf('cores for nodes').map(Number);
    expect(cores).toEqual([4, 16, 64]);
    const of = (kind: 'message' | 'command', value: (perSecond: number) => number) =>
      cores.map((n) => shown(value(rate(kind, n))));
    const commands = page.indexOf('| **or** commands a second |');
    expect(cellsOf('messages a second')).toEqual(of('message', (r) => r));
    expect(cellsOf('devices that send one message a minute')).toEqual(of('message', (r) => r * 60));
    expect(cellsOf('cores for PostgreSQL')).toEqual(of('message', (r) => (r * D.message) / CORE));
    expect(cellsOf('its log, MB a second')).toEqual(of('message', (r) => log('message', r)));
    expect(cellsOf('**or** commands a second')).toEqual(of('command', (r) => r));
    expect(cellsOf('cores for PostgreSQL', commands)).toEqual(of('command', (r) => (r * D.command) / CORE));
    expect(cellsOf('its log, MB a second', commands)).toEqual(of('command', (r) => log('command', r)));
  });

  it('computes what a primary carries from the costs', () => {
    for (const n of [4, 16]) {
      expect(cellsOf(`${n} cores`)).toEqual([shown((CORE * n) / D.message), shown((CORE * n) / D.command)]);
    }
    const kilobytes = 200 * 1_000;
    expect(cellsOf('log of 200 MB a second')).toEqual([shown(kilobytes / W.message), shown(kilobytes / W.command)]);
  });

  it('computes what one tenant can have from the costs', () => {
    const [bound] = cellsOf('one tenant');
    expect(bound).toContain(`${shown(CORE / S.message)} messages or ${shown(CORE / S.command)} commands a second`);
  });
});

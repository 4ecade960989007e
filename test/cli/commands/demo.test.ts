import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { nodeEnv, nodeFlags } from '../../support/node-flags.ts';

const run = promisify(execFile);
const commandLine = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url));

describe('the demo', () => {
  let stdout = '';
  let stderr = '';

  beforeAll(async () => {
    // Every random draw makes a simulated user open the door or use the wall switch.
    const NODE_OPTIONS = '--import=data:text/javascript,Math.random=()=>0';
    const env = { ...nodeEnv, HOME: process.env.HOME ?? '', NO_COLOR: '1', NODE_OPTIONS };
    const args = [...nodeFlags, commandLine, 'demo', '--exit'];
    ({ stdout, stderr } = await run(process.execPath, args, { env, timeout: 29_000 }));
  });

  it('prints every step, including a plan that is rolled back and one that succeeds', () => {
    const lines = stdout.split('\n');
    expect(lines.filter((line) => line.startsWith('✗'))).toEqual([]);
    expect(stderr).toBe('');
    const notified = (chapter: string): string[] => {
      const from = lines.findIndex((line) => line.includes(chapter));
      const rest = lines.slice(from + 1);
      const end = rest.indexOf('');
      return rest.slice(0, end).map((line) => line.replace(/^✓ /, '').replace(/ {2,}/, ': '));
    };
    const first = notified('while the front door is held open');
    expect(first).toEqual(
      expect.arrayContaining([
        'succeeded: Ceiling light · turn_off',
        'failed: Front door · lock: the door is open',
        'rolling_back: the plan “Good night”',
        'compensated: Ceiling light · turn_off',
        'rolled_back: the plan “Good night”',
        'undone: Ceiling light {"on":true}, Front door {"locked":false}',
      ]),
    );
    expect(first.indexOf('succeeded: Ceiling light · turn_off')).toBeLessThan(
      first.indexOf('failed: Front door · lock: the door is open'),
    );
    expect(notified('again, with the door shut').slice(-2)).toEqual([
      'succeeded: the plan “Good night”',
      'done: Ceiling light {"on":false}, Front door {"locked":true}',
    ]);
  });
});

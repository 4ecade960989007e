import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { planTree, type StepRecord, stepsText } from '../../../src/cli/commands/plans.ts';
import type { Device } from '../../../src/device/device.ts';
import type { PlanStatus, StepStatus } from '../../../src/domain/plan.ts';
import { runCliInProcess } from '../../support/cli.ts';
import { connect, register } from '../../support/device.ts';
import { startService, type TestService } from '../../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let device: Device;
let away: string;
beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  const done = (on: boolean) => () => ({ state: { on } });
  device = await connect(await register(owner), { commands: { turn_on: done(true), turn_off: done(false) } });
  away = (await register(owner)).device_id;
});
afterAll(async () => {
  await device.close();
  await at.stop();
});

const run = (args: string[], input?: unknown) =>
  runCliInProcess(['plans', ...args], {
    ...{ url: at.url, token: owner.token },
    input: input === undefined ? '' : JSON.stringify(input),
  });

const plan = (...steps: object[]) => ({ name: 'Evening', steps });
const on = (id: string, more: object = {}) => ({
  ...{ id, device_id: device.deviceId, action: 'turn_on', compensation: { action: 'turn_off' } },
  ...more,
});

describe('twinkeep plans', () => {
  it('runs a plan from stdin and follows it to its end', async () => {
    const { code, stdout, stderr } = await run(['run', '-', '--watch'], plan(on('a'), on('b', { depends_on: ['a'] })));
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/plan \S+ step b succeeded\n/);
    expect(stdout).toMatch(/Evening succeeded \S+\n└─ a succeeded turn_on \{\} \S+\n {3}└─ b succeeded turn_on/);
  });

  it('ends with 1 if the plan does not succeed, and prints the reason', async () => {
    const { code, stdout, stderr } = await run(
      ['run', '-', '--watch'],
      plan(on('a'), on('b', { depends_on: ['a'], action: 'fly' })),
    );
    expect([code, stderr]).toEqual([1, expect.stringContaining('the plan is rolled_back')]);
    expect(stdout).toContain("b failed fly {} ACTION_NOT_IN_MANIFEST: The device does not offer 'fly'.");
    expect(stdout).toContain('a compensated');
    const listed = (await run(['list', '--limit', '1'])).stdout;
    expect(listed).toMatch(/Evening +rolled_back +1 failed, 1 compensated +\S+Z +\S+Z\n$/);
  });

  it('prints a verdict for each step with --dry-run', async () => {
    const { code, stdout } = await run(['run', '-', '--dry-run'], plan(on('a'), on('b', { action: 'reboot' })));
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^a allowed\n( {2}.*\n)*b dry_run_required\n/)]);
  });

  it('lists, shows and cancels', async () => {
    const { stdout: id } = await run(['run', '-'], plan(on('far', { device_id: away })));
    const shown = await run(['show', id.trim()]);
    expect(shown.stdout).toContain('└─ far');
    expect((await run([])).stdout).toContain(id.trim());
    const cancelled = await run(['cancel', id.trim(), '--reason', 'no']);
    expect([cancelled.code, cancelled.stdout]).toEqual([0, expect.stringContaining('Evening')]);
    const watched = await run(['show', id.trim(), '--watch', '--json']);
    expect([watched.code, JSON.parse(watched.stdout.trim().split('\n').at(-1) ?? '').plan.status]).toEqual([
      1,
      'cancelled',
    ]);
  });

  it('continues the list after the previous page', async () => {
    const made: string[] = [];
    for (let n = 0; n < 3; n++) made.unshift((await run(['run', '-'], plan(on('a')))).stdout.trim());
    const first = await run(['list', '--limit', '2']);
    const cursor = /--cursor (\S+)/.exec(first.stderr)?.[1] ?? '';
    const second = await run(['list', '--limit', '1', '--cursor', cursor]);
    const idsIn = ({ stdout }: Awaited<ReturnType<typeof run>>) => stdout.match(/^[0-9a-f-]{36}/gm);
    expect([idsIn(first), idsIn(second)]).toEqual([made.slice(0, 2), made.slice(2)]);
  });

  it('rejects an invalid plan', async () => {
    expect(await run(['run', '/nowhere.json'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('/nowhere.json'),
    });
    expect(await run(['run', '-'], 'no object')).toMatchObject({ code: 2 });
    expect(await run(['run', '-'], plan(on('a'), on('a')))).toMatchObject({
      ...{ code: 1, stderr: expect.stringContaining('steps.1.id: duplicates the id of an earlier step') },
    });
  });
});

it('counts finished steps of a plan that goes on or has succeeded, and outcomes of any other', () => {
  const textOf = (status: PlanStatus, ...steps: StepStatus[]) =>
    stepsText({ status, steps: steps.map((one) => ({ status: one }) as StepRecord) });
  expect(textOf('running', 'succeeded', 'running')).toBe('1/2');
  expect(textOf('rolling_back', 'failed', 'compensating')).toBe('1/2');
  expect(textOf('succeeded', 'succeeded', 'succeeded')).toBe('2/2');
  expect(textOf('rolled_back', 'compensated', 'failed', 'skipped')).toBe('1 failed, 1 skipped, 1 compensated');
  expect(textOf('cancelled', 'skipped', 'skipped')).toBe('2 skipped');
  expect(textOf('failed')).toBe('none');
});

it('draws a graph as a tree: each step once, below its deepest dependency', () => {
  const step = (id: string, ...depends_on: string[]) => ({ id, depends_on }) as unknown as StepRecord;
  const steps = [step('d', 'a', 'c'), step('a'), step('c', 'b'), step('b', 'a'), step('e')];
  expect(
    planTree(steps).map(({ indent, step: { id }, otherDependencies }) => [indent + id, otherDependencies]),
  ).toEqual([
    ['├─ a', []],
    ['│  └─ b', []],
    ['│     └─ c', []],
    ['│        └─ d', ['a']],
    ['└─ e', []],
  ]);
});

import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ContractMigrations } from '../../src/main/contract-migrations.ts';
import { type LogLine, recordingLog } from '../support/lock-parts.ts';

const CHECK_MS = 2_000;

/** Contracts of which the test decides whether they can be applied. */
class FakeContracts {
  ids: number[];
  applicable = false;
  fails = false;
  calls: string[] = [];

  constructor(ids: number[]) {
    this.ids = ids;
  }

  async apply(): Promise<number[]> {
    this.calls.push('apply');
    if (this.fails) throw new Error('canceling statement due to lock timeout');
    const applied = this.applicable ? this.ids : [];
    if (this.applicable) this.ids = [];
    return applied;
  }

  async refresh(): Promise<void> {
    this.calls.push('refresh');
    if (this.applicable) this.ids = [];
  }
}

let lines: LogLine[];
let log: ReturnType<typeof recordingLog>['log'];
const running: ContractMigrations[] = [];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  ({ log, lines } = recordingLog());
});
afterEach(async () => {
  for (const one of running.splice(0)) await one.stop();
  vi.useRealTimers();
});

function start(contracts: FakeContracts, isLeader = true): ContractMigrations {
  const migrations = new ContractMigrations({ contracts, log, isLeader: () => isLeader });
  running.push(migrations);
  return migrations;
}
const pass = () => vi.advanceTimersByTimeAsync(CHECK_MS);
const messages = (): string[] => lines.map(({ message }) => message);

it('nothing happens where no migration waits', async () => {
  const contracts = new FakeContracts([]);
  expect(start(contracts).waiting).toBe(0);
  await pass();
  expect([contracts.calls, messages()]).toEqual([[], []]);
});

it('the leader tries until the migrations are applied, and then no longer', async () => {
  const contracts = new FakeContracts([24, 25]);
  const migrations = start(contracts);
  expect(migrations.waiting).toBe(2);
  await pass();
  contracts.applicable = true;
  await pass();
  expect(migrations.waiting).toBe(0);
  await pass();
  expect(contracts.calls).toEqual(['apply', 'apply']);
  expect(lines).toMatchObject([
    { level: 'warn', fields: { migrations: [24, 25] }, message: expect.stringContaining('migrations wait') },
    { level: 'info', fields: { migrations: [24, 25] }, message: expect.stringContaining('migrations applied') },
  ]);
});

it('the leader tries again after an error', async () => {
  const contracts = new FakeContracts([24]);
  contracts.fails = true;
  const migrations = start(contracts);
  await pass();
  expect(messages()).toContain('waiting migrations not applied; retrying');
  contracts.fails = false;
  contracts.applicable = true;
  await pass();
  expect(migrations.waiting).toBe(0);
});

it('the leader pauses for longer after each error, up to a minute, until one attempt succeeds', async () => {
  const contracts = new FakeContracts([24]);
  contracts.fails = true;
  start(contracts);
  await pass();
  for (const pause of [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
    contracts.calls = [];
    await vi.advanceTimersByTimeAsync(pause - 1);
    expect(contracts.calls).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(contracts.calls).toEqual(['apply']);
  }
  contracts.fails = false;
  await vi.advanceTimersByTimeAsync(60_000);
  contracts.calls = [];
  await pass();
  expect(contracts.calls).toEqual(['apply']);
});

it('the other nodes apply none, and notice when the leader has', async () => {
  const contracts = new FakeContracts([24]);
  const migrations = start(contracts, false);
  await pass();
  contracts.applicable = true;
  await pass();
  expect([migrations.waiting, contracts.calls]).toEqual([0, ['refresh', 'refresh']]);
});

it('none is applied after the stop', async () => {
  const contracts = new FakeContracts([24]);
  await start(contracts).stop();
  await pass();
  expect(contracts.calls).toEqual([]);
});

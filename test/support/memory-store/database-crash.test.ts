import { expect, it } from 'vitest';
import { MemoryDatabase } from './database.ts';
import { openMemoryStore } from './store.ts';

it('recovers to the last commit if a transaction was open at the crash', async () => {
  const database = new MemoryDatabase();
  const open: (() => unknown)[] = [];
  const first = openMemoryStore(database);
  await first.administration.setFlag('maintenance_mode', true);
  const waiting = openMemoryStore(database, {
    transport: (_, effect) => {
      open.push(effect);
      return new Promise(() => {});
    },
  });
  void waiting.administration.setFlag('maintenance_mode', false);
  void waiting.administration.setFlag('commands_disabled', true);
  const before = database.snapshot();
  database.crash(open);
  expect(open).toHaveLength(2);
  expect(database.snapshot().tables).toEqual(before.tables);
  await first.administration.setFlag('commands_disabled', true);
  expect(await first.administration.flags()).toMatchObject({ maintenance_mode: true, commands_disabled: true });
});

it('continues a sequence after the values that were logged in advance', () => {
  const database = new MemoryDatabase();
  const before = database.nextSequence();
  database.crash([]);
  expect(database.nextSequence()).toBe(before + 33);
});

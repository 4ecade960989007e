import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { storedForm } from '../../src/machines/stored-schemas.ts';
import { previousStoredForms } from '../support/builds.ts';
import { type StoredForms, storedForms } from './stored-forms.ts';

const recorded: StoredForms = JSON.parse(readFileSync(new URL('./stored-forms.json', import.meta.url), 'utf8'));

const decide =
  'What actors store has changed. During a rolling update nodes of the previous release read it too, and they refuse unknown members, ' +
  'states, timers and versions of machines. If this build writes something that they refuse, raise DATA_LEVEL in ' +
  'src/domain/data-level.ts, once for a release. Then record the stored forms: npm run stored-forms (CONTRIBUTING.md).';

it('the stored forms of actors are those that were recorded, or their author decides on the data level', () => {
  expect(storedForms(), decide).toEqual(recorded);
});

it('the data level is higher than that of the previous build if that one could not read everything', () => {
  const previous = previousStoredForms();
  const { dataLevel, machines } = storedForms();
  expect(dataLevel).toBe(isDeepStrictEqual(machines, previous.machines) ? previous.dataLevel : previous.dataLevel + 1);
});

it('a build refuses a stored context with a member that it does not know', () => {
  const { read } = storedForm<{ fixed: { a: number }; live: { b: number } }>()({ a: z.number() }, { b: z.number() });
  expect(read({ a: 1, b: 2 })).toEqual({ fixed: { a: 1 }, live: { b: 2 } });
  expect(() => read({ a: 1, b: 2, added: 3 })).toThrow('added');
});

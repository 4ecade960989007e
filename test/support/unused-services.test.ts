import { readdirSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { slow } from './slow.ts';
import { operationsProgram, unusedServices } from './unused-services.ts';

const EXAMPLE = 'src/operations/example.ts';
const example = `import { z } from 'zod';
import { done } from '../domain/refusals.ts';
import { operation, type Services } from './operation.ts';

type Parts = Pick<Services, 'clock' | 'log' | 'newId'>;
const base = {
  ...{ name: 'example', summary: 'Example', input: z.strictObject({}), output: z.object({}) },
  ...{ role: 'user', scope: null, changes: false },
} as const;
const read = ({ clock }: Pick<Services, 'clock'>) => clock.now();
async function answer(parts: Parts) {
  read(parts);
  const { log } = parts;
  log.info({}, 'example');
  return done({ body: {} });
}
export const passing = operation({ ...base, needs: ['clock', 'log', 'newId', 'store'], run: (services) => answer(services) });
export const named = operation({ ...base, needs: ['clock', 'log', 'newId', 'users'], run: answer });
export const reading = operation({
  ...base,
  needs: ['actors', 'clock', 'flags', 'locks', 'newId', 'sidecar'],
  policy: async ({ clock: { now } }) => (now() > 0 ? done(null) : done(null)),
  async run(services) {
    services.flags();
    const changed = { ...services, newId: () => 'id' };
    changed.sidecar.connected();
    return done({ body: { id: changed.newId(), [read.name]: read({ ...services }) } });
  },
});
`;

let program: ReturnType<typeof operationsProgram>;
beforeAll(() => {
  program = operationsProgram({ [EXAMPLE]: example });
});

describe('the services that are listed', () => {
  const folders = readdirSync('src/operations', { withFileTypes: true }).filter((entry) => entry.isDirectory());

  // Types are checked as they are needed, so that each folder takes a part of the time.
  it.each(['', ...folders.map(({ name }) => `${name}/`)])(
    'in `needs` or in a parameter are all used: src/operations/%s',
    slow,
    (folder) => {
      const files = new RegExp(`^src/operations/${folder}[^/]+$`);
      expect(unusedServices(program, files).filter(({ at }) => !at.startsWith(EXAMPLE))).toEqual([]);
    },
  );

  it('are found where they are not used', slow, () => {
    const lineOf = (text: string) => example.slice(0, example.indexOf(text)).split('\n').length;
    expect(unusedServices(program, new RegExp(`^${EXAMPLE}$`))).toEqual([
      { at: `${EXAMPLE}:${lineOf('(parts: Parts)')}`, service: 'newId' },
      { at: `${EXAMPLE}:${lineOf('export const passing')}`, service: 'store' },
      { at: `${EXAMPLE}:${lineOf('export const named')}`, service: 'users' },
      { at: `${EXAMPLE}:${lineOf("needs: ['actors'")}`, service: 'actors' },
      { at: `${EXAMPLE}:${lineOf("needs: ['actors'")}`, service: 'locks' },
    ]);
  });
});

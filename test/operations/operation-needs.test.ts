import { beforeAll, describe, expect, it } from 'vitest';
import { operationsProgram, type UnusedService, unusedServices } from '../support/unused-services.ts';

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

let unused: UnusedService[];
beforeAll(() => {
  unused = unusedServices(operationsProgram({ [EXAMPLE]: example }), /^src\/operations\//);
});

describe('the services that are listed', () => {
  it('in `needs` or in a parameter are all used', () => {
    expect(unused.filter(({ at }) => !at.startsWith(EXAMPLE))).toEqual([]);
  });

  it('are found where they are not used', () => {
    const lineOf = (text: string) => example.slice(0, example.indexOf(text)).split('\n').length;
    expect(unused.filter(({ at }) => at.startsWith(EXAMPLE))).toEqual([
      { at: `${EXAMPLE}:${lineOf('(parts: Parts)')}`, service: 'newId' },
      { at: `${EXAMPLE}:${lineOf('export const passing')}`, service: 'store' },
      { at: `${EXAMPLE}:${lineOf('export const named')}`, service: 'users' },
      { at: `${EXAMPLE}:${lineOf("needs: ['actors'")}`, service: 'actors' },
      { at: `${EXAMPLE}:${lineOf("needs: ['actors'")}`, service: 'locks' },
    ]);
  });
});

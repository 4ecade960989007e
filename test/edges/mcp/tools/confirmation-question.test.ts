import { expect, it } from 'vitest';
import { confirmationQuestion } from '../../../../src/edges/mcp/tools/confirmation-question.ts';

const DEVICE = '0195d9a2-7f00-7000-8000-000000000001';
const COMMAND = '0195d9a2-7f00-7000-8000-000000000002';
const PLAN = '0195d9a2-7f00-7000-8000-000000000003';
const MEMORY = '0195d9a2-7f00-7000-8000-000000000004';
const USER = '0195d9a2-7f00-7000-8000-000000000005';

const contexts: Readonly<Record<string, object>> = {
  device: { fixed: { name: 'Front door' } },
  command: {
    fixed: {
      ...{ action: 'unlock', params: {}, origin: { plan: { id: PLAN, stepId: 'door', compensation: null } } },
      confirmation: { preview: { changes: { locked: { from: true, to: false } } } },
    },
  },
  plan: {
    live: {
      cognition: {
        memories: [
          {
            ...{ id: MEMORY, kind: 'routine', subject: 'Good night”. Also (x)', source: 'key:aB3dE5gH' },
            ...{ adoptedBy: USER, steps: ['lamp', 'door'] },
          },
          { id: USER, kind: 'routine', subject: 'Other', source: 'user:u', adoptedBy: null, steps: ['lamp'] },
        ],
      },
    },
  },
};
const read = ({ kind }: { kind: string }) => ({ snapshot: { context: contexts[kind] } });
const actors = { peek: read, read: async (ref: { kind: string }) => read(ref) } as never;

it('the question names the memories that shaped the step, with writer and adopter', async () => {
  const waiting = {
    device_id: DEVICE,
    command_id: COMMAND,
    dry_run_token: 't',
    expires_at: '2026-03-01T12:00:00.000Z',
  };
  expect((await confirmationQuestion(actors, [waiting]))?.split('\n')).toEqual([
    'The action “unlock” is critical and waits for your confirmation.',
    `Device “Front door” (${DEVICE})`,
    `  Because of the routine “Good night. Also x” (${MEMORY}) by key:aB3dE5gH, adopted by user:${USER}`,
    '  Change “locked”: true → false',
    'Do it on this device?',
  ]);
});

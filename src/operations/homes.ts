import { z } from 'zod';
import { done } from '../domain/refusals.ts';
import { givenName, timezone } from './inputs.ts';
import { operation, tenantOf } from './operation.ts';

export const createHome = operation({
  name: 'createHome',
  summary: 'Create a home',
  input: z.strictObject({ home_name: givenName, timezone: timezone.optional() }),
  output: z.object({ status: z.literal('created'), id: z.uuid() }),
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  async run({ store, clock, newId }, { input, caller, idempotent }) {
    const id = newId();
    const answer = { body: { status: 'created' as const, id } };
    await store.records.insertHome(
      {
        id,
        tenantId: tenantOf(caller),
        name: input.home_name,
        timezone: input.timezone ?? null,
        createdAt: clock.now(),
      },
      idempotent?.row(answer),
    );
    return done(answer);
  },
});

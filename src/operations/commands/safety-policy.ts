import { z } from 'zod';
import { confirmerSchema } from '../../domain/enum-schemas.ts';
import { MAX_CONFIRM_TTL_S, MIN_CONFIRM_TTL_S } from '../../domain/policy.ts';
import { done } from '../../domain/refusals.ts';
import type { TenantContext, TenantEvent } from '../../machines/tenant-types.ts';
import { operation, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { readTenant } from './gateway-facts.ts';

const confirmBy = confirmerSchema.meta({
  description:
    '`requester`: any user with the role, with the token or from the inbox. `another_principal`: any user except the ' +
    'requester, whatever key or token is used. `person`: only a cookie session or a user’s token; not an API key, and ' +
    'not through `/mcp`',
});
const confirmTtl = z
  .int()
  .min(MIN_CONFIRM_TTL_S)
  .max(MAX_CONFIRM_TTL_S)
  .meta({ description: 'Seconds to confirm a command or a change; what waits already keeps its deadline' });

const policy = z.object({ confirm_by: confirmBy, confirm_ttl_s: confirmTtl }).meta({ id: 'SafetyPolicy' });
const answer = z.object({ policy });

const EXAMPLE = { policy: { confirm_by: 'another_principal' as const, confirm_ttl_s: 300 } };

export const getPolicy = operation({
  name: 'getPolicy',
  summary: 'Show who may confirm critical commands and changes that make something weaker, and within what time',
  input: z.strictObject({}),
  output: answer,
  role: 'admin',
  scope: 'read:tenant',
  changes: false,
  example: { output: EXAMPLE },
  needs: ['actors'],
  async run(services, { caller }) {
    const { snapshot } = await readTenant(services, caller);
    return done({ body: { policy: snapshot.context.fixed.policy } });
  },
});

export const updatePolicy = operation({
  name: 'updatePolicy',
  summary:
    'Change who may confirm critical commands and changes, including waiting ones; omitted members are unchanged',
  input: z.strictObject({ confirm_by: confirmBy.optional(), confirm_ttl_s: confirmTtl.optional() }),
  output: answer,
  role: 'admin',
  scope: 'write:tenant',
  changes: true,
  audit: 'journal',
  personOnly: true,
  example: { input: { confirm_by: 'another_principal' }, output: EXAMPLE },
  needs: ['actors', 'clock'],
  async run(services, { input: { confirm_by, confirm_ttl_s }, caller }) {
    const event: TenantEvent = {
      type: 'policy.set',
      at: services.clock.now(),
      by: caller.principal,
      policy: {
        ...(confirm_by !== undefined && { confirm_by }),
        ...(confirm_ttl_s !== undefined && { confirm_ttl_s }),
      },
    };
    const reply = await sendToActor(services, { kind: 'tenant', id: tenantOf(caller) }, event, undefined, {
      allowNoOp: true,
    });
    if (!reply.ok) return reply;
    return done({ body: { policy: (reply.value.snapshot.context as TenantContext).fixed.policy } });
  },
});

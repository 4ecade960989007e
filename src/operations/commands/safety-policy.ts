import { z } from 'zod';
import type { ChangePreview } from '../../domain/change-request.ts';
import { confirmerSchema } from '../../domain/enum-schemas.ts';
import {
  DEFAULT_AGENT_CONFIRM_BY,
  looserRules,
  MAX_CONFIRM_TTL_S,
  MIN_CONFIRM_TTL_S,
  type SafetyPolicy,
} from '../../domain/policy.ts';
import { done } from '../../domain/refusals.ts';
import type { Snapshot } from '../../machines/definition.ts';
import type { TenantContext, TenantEvent } from '../../machines/tenant-types.ts';
import { applyOrRequest, changeDryRun, confirmationResponse } from '../changes/confirmed-change.ts';
import { operation } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { readTenant } from './gateway-facts.ts';

const confirmBy = confirmerSchema.meta({
  description:
    '`requester`: any user with the role, with the token or from the inbox. `another_principal`: any user except the ' +
    'requester, whatever key or token is used. `person`: only a cookie session or a user’s token; not an API key, and ' +
    'not through `/mcp`',
});
const agentConfirmBy = confirmerSchema.meta({
  description:
    'The same for what an agent requests or confirms, in addition to `confirm_by`; default `person`. Agents are all ' +
    'credentials at `/mcp`, and on every protocol tokens and API keys that were presented there, and tokens of programs',
});
const confirmTtl = z.int().min(MIN_CONFIRM_TTL_S).max(MAX_CONFIRM_TTL_S).meta({
  description:
    'Seconds to confirm a command or a change. A shorter time applies to what waits already, a longer one does not',
});

const policy = z
  .object({ confirm_by: confirmBy, agent_confirm_by: agentConfirmBy, confirm_ttl_s: confirmTtl })
  .meta({ id: 'SafetyPolicy' });
const answer = z.object({ policy });

const policyBody = (given: SafetyPolicy): z.infer<typeof policy> => ({
  confirm_by: given.confirm_by,
  agent_confirm_by: given.agent_confirm_by ?? DEFAULT_AGENT_CONFIRM_BY,
  confirm_ttl_s: given.confirm_ttl_s,
});

const EXAMPLE = {
  policy: { confirm_by: 'another_principal' as const, agent_confirm_by: 'person' as const, confirm_ttl_s: 300 },
};

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
    return done({ body: { policy: policyBody(snapshot.context.fixed.policy) } });
  },
});

export const updatePolicy = operation({
  name: 'updatePolicy',
  summary:
    'Change who may confirm critical commands and changes. Stricter rules apply at once, also to what waits; looser ones must be confirmed, and do not apply to what waits',
  input: z.strictObject({
    confirm_by: confirmBy.optional(),
    agent_confirm_by: agentConfirmBy.optional(),
    confirm_ttl_s: confirmTtl.optional(),
  }),
  output: z.union([answer, changeDryRun]),
  responses: { 200: { when: 'The policy is in force', body: answer }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:tenant',
  changes: true,
  audit: 'journal',
  personOnly: true,
  example: { input: { confirm_by: 'another_principal' }, output: EXAMPLE },
  refuses: ['CONFLICT'],
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'newId', 'store'],
  async run(services, call) {
    const { input, caller } = call;
    const { ref, snapshot } = await readTenant(services, caller);
    const { policy: before } = snapshot.context.fixed;
    const policy: Partial<SafetyPolicy> = {
      ...(input.confirm_by !== undefined && { confirm_by: input.confirm_by }),
      ...(input.agent_confirm_by !== undefined && { agent_confirm_by: input.agent_confirm_by }),
      ...(input.confirm_ttl_s !== undefined && { confirm_ttl_s: input.confirm_ttl_s }),
    };
    const after = { ...before, ...policy };
    const weaker = looserRules(before, after);
    const change = {
      ...{ operation: 'updatePolicy' as const, subject: `tenant:${ref.id}` },
      base: `policy:${Object.values(policyBody(before)).join(':')}`,
      preview: weaker.length === 0 ? null : { weaker, changes: changesOf(policyBody(before), policyBody(after)) },
    };
    return applyOrRequest(services, call, change, async (applied) => {
      const event: TenantEvent = {
        ...{ type: 'policy.set', at: services.clock.now(), by: caller.principal, policy },
        ...(applied && { change: applied, loosened: before }),
      };
      const answered = ({ context }: Pick<Snapshot, 'context'>) => ({
        body: { policy: policyBody((context as TenantContext).fixed.policy) },
      });
      const reply = await sendToActor(services, ref, event, (_, now) => call.idempotent?.toRow(answered(now)), {
        allowNoOp: true,
      });
      return reply.ok ? done(answered(reply.value.snapshot)) : reply;
    });
  },
});

const changesOf = (before: z.infer<typeof policy>, after: z.infer<typeof policy>): ChangePreview['changes'] =>
  Object.fromEntries(
    (['confirm_by', 'agent_confirm_by', 'confirm_ttl_s'] as const)
      .filter((name) => before[name] !== after[name])
      .map((name) => [name, { from: before[name], to: after[name] }]),
  );

import { hash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { dispatchLimits, judge } from '../domain/gateway.ts';
import { jsonBytes } from '../domain/json/value.ts';
import { MAX_PARAMS_BYTES } from '../domain/param-schema.ts';
import type { Refusal } from '../domain/refusals.ts';
import { jsonObject, requestedActionName, timeoutSeconds, ttlSeconds } from '../domain/request-fields.ts';
import { preview } from '../domain/twin.ts';
import type { JsonObject, Principal } from '../domain/values.ts';
import type { Approval, CommandContext, CommandEvent, PlanOrigin, Preview } from '../machines/command-types.ts';
import type { FirmwareRelease } from '../store/contract/firmware.ts';
import type { IdempotencyRow } from '../store/contract.ts';
import { type CommittedTenant, gatewayFacts, type Judging, type Target } from './facts.ts';
import type { Caller, Services } from './operation.ts';

// How one command is asked for, whatever names its targets.

/** What a request for a command says beside its targets. */
export const wishFields = {
  action: requestedActionName,
  // A refused command is kept too, so what no schema would take is not even asked.
  params: jsonObject.refine((params) => jsonBytes(params) <= MAX_PARAMS_BYTES, 'is too large').optional(),
  dry_run: z.boolean().optional().meta({ description: 'Check and preview; nothing is sent until it is confirmed' }),
  ttl_s: ttlSeconds
    .optional()
    .meta({ description: 'Seconds it may wait to be written; default 60, CRITICAL at most 300' }),
  timeout_s: timeoutSeconds.optional().meta({ description: 'Seconds from the first write to the final word; 30' }),
};
export type Wish = z.infer<z.ZodObject<typeof wishFields>>;

/** The answer where a command is sent, at once or with its confirmation. */
export const dispatched = z
  .object({ success: z.literal(true), command_id: z.uuid(), message_id: z.uuid() })
  .meta({ id: 'Dispatched' });

/** What a command is made with: a repeat of its request makes it again with the same. */
export const planned = z.object({
  device_id: z.string(),
  command_id: z.uuid(),
  message_id: z.uuid(),
  dry_run_token: z.uuid(),
});
export type Planned = z.infer<typeof planned>;

export const plan = ({ newId }: Pick<Services, 'newId'>, deviceId: string): Planned => ({
  device_id: deviceId,
  command_id: newId(),
  message_id: newId(),
  dry_run_token: randomUUID(),
});

/** The only form in which a dry-run token is kept. */
export const tokenHash = (token: string): string => hash('sha256', token.toLowerCase());

export interface Asked {
  tenant: CommittedTenant;
  target: Target;
  wish: Wish;
  planned: Planned;
  /** What `releaseNamed` answers for the wish, once for all its targets. */
  release: FirmwareRelease | null;
  /** Of a plan's command. */
  plan?: PlanOrigin;
  approval?: Approval;
}

/**
 * Makes the command and has the gateway judge it; resolves when that is durable, with the command as committed. `row` is
 * asked for the stored answer of an idempotent request, which is kept in the same commit.
 */
export async function request(
  services: Services,
  caller: Caller,
  asked: Asked,
  row: (command: CommandContext) => IdempotencyRow | null = () => null,
): Promise<CommandContext> {
  const event = requestOf(services, caller, asked);
  const reply = await services.actors.create({ kind: 'command', id: asked.planned.command_id }, event, {
    idempotency: ({ snapshot }) => row(snapshot.context as CommandContext),
  });
  return reply.snapshot.context as CommandContext;
}

/** The event that makes a command, with the facts as they are now. */
export function requestOf(
  services: Judging & Pick<Services, 'clock'>,
  caller: Caller,
  asked: Asked,
): Extract<CommandEvent, { type: 'request' }> {
  const { tenant, target, wish, planned, plan = null, approval } = asked;
  const { context: device } = target.device.snapshot;
  const params = wish.params ?? {};
  return {
    type: 'request',
    at: services.clock.now(),
    by: caller.principal,
    command: {
      id: planned.command_id,
      tenantId: device.tenantId,
      deviceId: device.id,
      action: wish.action,
      params,
      messageId: planned.message_id,
      origin: { requestId: caller.requestId, plan },
      requestedBy: withoutRequest(caller.principal),
      ...(wish.ttl_s !== undefined && { ttlS: wish.ttl_s }),
      ...(wish.timeout_s !== undefined && { timeoutS: wish.timeout_s }),
    },
    facts: factsOf(services, asked),
    session: target.session,
    confirmation: {
      tokenHash: tokenHash(planned.dry_run_token),
      ttlS: tenant.snapshot.context.policy.confirm_ttl_s,
      preview: previewOf(target, wish.action, params),
    },
    ...(approval && { approval }),
  };
}

/** The request and the operation stand in the journal; the command itself is read and written too often for them. */
export const withoutRequest = ({ requestId: _, operation: __, ...who }: Principal): Principal => who;

const factsOf = (services: Judging, { tenant, target, wish, release }: Asked) =>
  gatewayFacts(services, tenant, target, {
    action: wish.action,
    params: wish.params ?? {},
    dryRun: wish.dry_run ?? false,
    confirmed: false,
    release,
  });

export function previewOf({ device, manifest }: Target, action: string, params: JsonObject): Preview {
  const { state } = device.snapshot.context;
  const capability = manifest?.capabilities.find((one) => one.action === action);
  return capability ? preview(capability, state, params) : { current: state, expected: null, changes: null };
}

/**
 * Why the gateway refused a command, in full: the command itself keeps code and sentence, not the list of fields.
 */
export function whyRefused(services: Services, command: CommandContext, asked: Asked): Refusal {
  const kept = command.refusal ?? { code: 'GATEWAY_ERROR', detail: 'The safety gateway gave no verdict.' };
  const verdict = judge(factsOf(services, asked));
  const limits =
    verdict.kind === 'refused'
      ? verdict
      : dispatchLimits(verdict.capability.safetyClass, asked.wish.ttl_s, asked.wish.timeout_s);
  return 'refusal' in limits && limits.refusal.code === kept.code ? limits.refusal : kept;
}

import { hash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { dispatchLimits, judge } from '../../domain/gateway.ts';
import { jsonBytes } from '../../domain/json/value.ts';
import { MAX_PARAMS_BYTES } from '../../domain/param-schema.ts';
import type { Refusal } from '../../domain/refusals.ts';
import { jsonObject, requestedActionName, timeoutSeconds, ttlSeconds } from '../../domain/request-fields.ts';
import { preview } from '../../domain/twin.ts';
import type { JsonObject, Principal } from '../../domain/values.ts';
import type { Approval, CommandContext, CommandEvent, PlanOrigin, Preview } from '../../machines/command-types.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import type { IdempotencyRow } from '../../store/contract.ts';
import type { Caller, Services } from '../operation.ts';
import { type CommittedTenant, type GatewayServices, gatewayFacts, type Target } from './gateway-facts.ts';

// How one command is asked for, whatever names its targets.

/** What a request for a command says beside its targets. */
export const commandFields = {
  action: requestedActionName,
  // A refused command is kept too, so what no schema would take is not even asked.
  params: jsonObject.refine((params) => jsonBytes(params) <= MAX_PARAMS_BYTES, 'is too large').optional(),
  dry_run: z.boolean().optional().meta({ description: 'Check and preview; nothing is sent until it is confirmed' }),
  ttl_s: ttlSeconds
    .optional()
    .meta({ description: 'Seconds it may wait to be written; default 60, CRITICAL at most 300' }),
  timeout_s: timeoutSeconds.optional().meta({ description: 'Seconds from the first write to the final word; 30' }),
};
export type CommandInput = z.infer<z.ZodObject<typeof commandFields>>;

/** The answer where a command is sent, at once or with its confirmation. */
export const dispatchedBody = z
  .object({ success: z.literal(true), command_id: z.uuid(), message_id: z.uuid() })
  .meta({ id: 'Dispatched' });

/** What a command is made with: a repeat of its request makes it again with the same. */
export const reservedIds = z.object({
  device_id: z.string(),
  command_id: z.uuid(),
  message_id: z.uuid(),
  dry_run_token: z.uuid(),
});
export type ReservedIds = z.infer<typeof reservedIds>;

export const reserveIds = ({ newId }: Pick<Services, 'newId'>, deviceId: string): ReservedIds => ({
  device_id: deviceId,
  command_id: newId(),
  message_id: newId(),
  dry_run_token: randomUUID(),
});

/** The only form in which a dry-run token is kept. */
export const hashToken = (token: string): string => hash('sha256', token.toLowerCase());

export interface CommandRequest {
  tenant: CommittedTenant;
  target: Target;
  input: CommandInput;
  ids: ReservedIds;
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
export async function requestCommand(
  services: Services,
  caller: Caller,
  asked: CommandRequest,
  row: (command: CommandContext) => IdempotencyRow | null = () => null,
): Promise<CommandContext> {
  const event = requestEvent(services, caller, asked);
  const reply = await services.actors.create({ kind: 'command', id: asked.ids.command_id }, event, {
    idempotency: ({ snapshot }) => row(snapshot.context as CommandContext),
  });
  return reply.snapshot.context as CommandContext;
}

/** The event that makes a command, with the facts as they are now. */
export function requestEvent(
  services: GatewayServices & Pick<Services, 'clock'>,
  caller: Caller,
  asked: CommandRequest,
): Extract<CommandEvent, { type: 'request' }> {
  const { tenant, target, input, ids, plan = null, approval } = asked;
  const { context: device } = target.device.snapshot;
  const params = input.params ?? {};
  return {
    type: 'request',
    at: services.clock.now(),
    by: caller.principal,
    command: {
      id: ids.command_id,
      tenantId: device.tenantId,
      deviceId: device.id,
      action: input.action,
      params,
      messageId: ids.message_id,
      origin: { requestId: caller.requestId, plan },
      requestedBy: stripRequest(caller.principal),
      ...(input.ttl_s !== undefined && { ttlS: input.ttl_s }),
      ...(input.timeout_s !== undefined && { timeoutS: input.timeout_s }),
    },
    facts: factsOf(services, asked),
    session: target.session,
    confirmation: {
      tokenHash: hashToken(ids.dry_run_token),
      ttlS: tenant.snapshot.context.policy.confirm_ttl_s,
      preview: previewOf(target, input.action, params),
    },
    ...(approval && { approval }),
  };
}

/** The request and the operation stand in the journal; the command itself is read and written too often for them. */
export const stripRequest = ({ requestId: _, operation: __, ...who }: Principal): Principal => who;

const factsOf = (services: GatewayServices, { tenant, target, input, release }: CommandRequest) =>
  gatewayFacts(services, tenant, target, {
    action: input.action,
    params: input.params ?? {},
    dryRun: input.dry_run ?? false,
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
export function fullRefusal(services: Services, command: CommandContext, asked: CommandRequest): Refusal {
  const kept = command.refusal ?? { code: 'GATEWAY_ERROR', detail: 'The safety gateway gave no verdict.' };
  const verdict = judge(factsOf(services, asked));
  const limits =
    verdict.kind === 'refused'
      ? verdict
      : dispatchLimits(verdict.capability.safetyClass, asked.input.ttl_s, asked.input.timeout_s);
  return 'refusal' in limits && limits.refusal.code === kept.code ? limits.refusal : kept;
}

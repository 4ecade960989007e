import { hash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { dispatchLimits, judge } from '../../domain/gateway.ts';
import { jsonBytes } from '../../domain/json/value.ts';
import { MAX_PARAMS_BYTES } from '../../domain/param-schema.ts';
import type { Refusal } from '../../domain/refusals.ts';
import { jsonObject, requestedActionName, timeoutSeconds, ttlSeconds } from '../../domain/request-fields.ts';
import type { Preview } from '../../domain/twin.ts';
import { preview } from '../../domain/twin.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { JsonObject, Principal } from '../../domain/values.ts';
import { commandParamsPlace, maskParams, sealParams } from '../../domain/write-only-params.ts';
import type { Approval, CommandContext, CommandEvent, PlanOrigin } from '../../machines/command-types.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import type { IdempotencyRow } from '../../store/contract.ts';
import { previewedDevice } from '../devices/device-view.ts';
import { firmwarePreview, type RequestedRelease } from '../firmware/firmware-facts.ts';
import type { Caller, Services } from '../operation.ts';
import { type CommittedTenant, type GatewayServices, gatewayFacts, type Target } from './gateway-facts.ts';

// Creation of one command: input, reserved ids and request event, shared by single commands, batches and plans.

/** Members of a command request, except its targets. */
export const commandFields = {
  action: requestedActionName,
  // Refused commands are stored too, so oversized parameters are rejected before a command exists.
  params: jsonObject.refine((params) => jsonBytes(params) <= MAX_PARAMS_BYTES, 'is too large').optional(),
  dry_run: z
    .boolean()
    .optional()
    .meta({ description: 'Check and preview only; nothing is sent until it is confirmed' }),
  ttl_s: ttlSeconds.optional().meta({
    description:
      'Seconds until the command must be written to the device; default 60, at most 300 for CRITICAL actions',
  }),
  timeout_s: timeoutSeconds.optional().meta({
    description:
      "Seconds from the first write, or from the last `in_progress`, to the final acknowledgement; default: the action's, else 30",
  }),
};
export type CommandInput = z.infer<z.ZodObject<typeof commandFields>>;

/** The answer for a dispatched command, at once or after its confirmation. */
export const dispatchedBody = z
  .object({ success: z.literal(true), command_id: uuid, message_id: uuid })
  .meta({ id: 'Dispatched' });

/** The ids of a new command; a repeat of its request uses the same ones. */
export const reservedIds = z.object({
  device_id: z.string(),
  command_id: uuid,
  message_id: uuid,
  dry_run_token: uuid,
});
export type ReservedIds = z.infer<typeof reservedIds>;

export const reserveIds = ({ newId }: Pick<Services, 'newId'>, deviceId: string): ReservedIds => ({
  device_id: deviceId,
  command_id: newId(),
  message_id: newId(),
  dry_run_token: randomUUID(),
});

/** The stored form of a dry-run token. */
export const hashToken = (token: string): string => hash('sha256', token.toLowerCase());

/** Services that create a command. */
export type CommandServices = GatewayServices & Pick<Services, 'actors' | 'clock' | 'seal'>;

export interface CommandRequest {
  tenant: CommittedTenant;
  target: Target;
  input: CommandInput;
  ids: ReservedIds;
  /** Result of `findRequestedRelease` for the input, shared by all targets. */
  release: RequestedRelease | null;
  /** Set for a plan's command. */
  plan?: PlanOrigin;
  approval?: Approval;
  /** The parameters to store, of a step whose parameters are sealed. Default: as the manifest says now. */
  maskedParams?: JsonObject;
}

/**
 * Creates the command and has the gateway judge it; resolves with the committed command when it is durable. `row`
 * returns the stored answer of an idempotent request, which is written in the same commit.
 */
export async function requestCommand(
  services: CommandServices,
  caller: Caller,
  request: CommandRequest,
  row: (command: CommandContext) => IdempotencyRow | null = () => null,
): Promise<CommandContext> {
  const event = requestEvent(services, caller, request);
  const reply = await services.actors.create({ kind: 'command', id: request.ids.command_id }, event, {
    idempotency: ({ snapshot }) => row(snapshot.context as CommandContext),
  });
  return reply.snapshot.context as CommandContext;
}

/** The event that creates a command, with the current gateway facts. */
export function requestEvent(
  services: GatewayServices & Pick<Services, 'clock' | 'seal'>,
  caller: Caller,
  request: CommandRequest,
): Extract<CommandEvent, { type: 'request' }> {
  const { tenant, target, input, ids, plan = null, approval } = request;
  const { context: device } = target.device.snapshot;
  const params = input.params ?? {};
  const { maskedParams = maskParams(target.manifest, input.action, params) } = request;
  const isSealed = maskedParams !== params;
  return {
    type: 'request',
    at: services.clock.now(),
    by: caller.principal,
    command: {
      id: ids.command_id,
      tenantId: device.fixed.tenantId,
      deviceId: device.fixed.id,
      action: input.action,
      params: maskedParams,
      ...(isSealed && { sealedParams: sealParams(services, params, commandParamsPlace(ids.command_id)) }),
      messageId: ids.message_id,
      origin: { requestId: caller.requestId, plan },
      requestedBy: stripRequest(caller.principal),
      ...(input.ttl_s !== undefined && { ttlS: input.ttl_s }),
      ...(input.timeout_s !== undefined && { timeoutS: input.timeout_s }),
    },
    facts: factsOf(services, request),
    session: target.session,
    confirmation: {
      tokenHash: hashToken(ids.dry_run_token),
      ttlS: tenant.snapshot.context.fixed.policy.confirm_ttl_s,
      preview: previewOf(services, target, { action: input.action, params, release: request.release }),
    },
    ...(approval && { approval }),
  };
}

/**
 * Drops request id and operation from the stored requester: the journal has them, and the command is read and written
 * often.
 */
export const stripRequest = ({ requestId: _, operation: __, ...rest }: Principal): Principal => rest;

const factsOf = (services: GatewayServices, { tenant, target, input, release }: CommandRequest) =>
  gatewayFacts(services, tenant, target, {
    action: input.action,
    params: input.params ?? {},
    dryRun: input.dry_run ?? false,
    confirmed: false,
    release,
  });

/** The command whose effect is previewed; `release` is the result of `findRequestedRelease` for it. */
export interface PreviewedCommand {
  action: string;
  params: JsonObject;
  release: FirmwareRelease | null;
}

/** What a confirmation of a command covers: the device as it is named and placed, and the effect on it. */
export const previewOf = (
  services: Pick<GatewayServices, 'actors' | 'artifacts'>,
  target: Target,
  command: PreviewedCommand,
): Preview => ({
  ...effectOf(services, target, command),
  device: previewedDevice(services.actors.peek<DeviceContext>(target.device.ref) ?? target.device),
});

/** The effect of a command on its device. Reads the device again: it may have reported during the caller's queries. */
export function effectOf(
  services: Pick<GatewayServices, 'actors' | 'artifacts'>,
  { device, manifest }: Target,
  { action, params, release }: PreviewedCommand,
): Preview {
  const { state } = (services.actors.peek<DeviceContext>(device.ref) ?? device).snapshot.context.live;
  const capability = manifest?.capabilities.find((one) => one.action === action);
  const effect = capability ? preview(capability, state, params) : { current: {}, expected: null, changes: null };
  return release === null ? effect : { ...effect, firmware: firmwarePreview(services, release) };
}

/** The gateway's refusal with its field errors: the command itself stores only code and detail. */
export function fullRefusal(services: GatewayServices, command: CommandContext, request: CommandRequest): Refusal {
  const stored = command.fixed.refusal ?? { code: 'GATEWAY_ERROR', detail: 'The safety gateway gave no verdict.' };
  const verdict = judge(factsOf(services, request));
  const limits =
    verdict.kind === 'refused'
      ? verdict
      : dispatchLimits(verdict.capability, request.input.ttl_s, request.input.timeout_s);
  return 'refusal' in limits && limits.refusal.code === stored.code ? limits.refusal : stored;
}

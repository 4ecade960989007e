import { z } from 'zod';
import { cleanClientName } from '../domain/client-name.ts';
import type { Refusal, RefusalCode } from '../domain/refusals.ts';
import { uuid } from '../domain/uuid-schema.ts';
import type { Uuid } from '../domain/values.ts';
import type { AuditedAction } from '../services/audit-writer.ts';
import type { Answer, AuditSubject, Call, Caller, Operation, Services, SignInAttempt } from './operation.ts';

// Records operations in the audit (contract §6).

/** Refusals that are audited: attempts without permission. Gateway refusals are in the journal of their command. */
const AUDITED_REFUSALS: ReadonlySet<RefusalCode> = new Set([
  'FORBIDDEN_ROLE',
  'INSUFFICIENT_SCOPE',
  'KEY_RESTRICTED',
  'FORBIDDEN',
  'CONFIRMATION_FAILED',
  'CSRF_FAILED',
]);

const VISIBLE = /^[\x21-\x7e]{1,200}$/;

/** Whether the operation gets an audit row: it changes something that no journal records. */
export const isAudited = ({ changes, audit }: Operation): boolean => changes && audit === undefined;

/** Resolves when the audit row is durable. Nothing is written if there is a row with this `id`. */
export async function auditDone(
  { audit }: Pick<Services, 'audit'>,
  operation: Operation,
  call: Call<unknown>,
  answer: Answer<unknown>,
  id?: Uuid,
): Promise<void> {
  const subject =
    answer.about ?? operation.auditSubject?.(call, answer.body) ?? defaultSubject(operation, call.caller, call.input);
  const action = auditedActionOf(operation, call.caller, subject);
  if (action !== null) await audit.recordDone(action, id);
}

/**
 * Audits that a repeated request gets a stored answer with a secret. Resolves when the row is durable; repetitions within
 * a minute share one row.
 */
export async function auditReplay(
  { audit }: Pick<Services, 'audit'>,
  caller: Caller,
  subject: AuditSubject,
): Promise<void> {
  const action = auditedActionOf({ name: 'replayAnswer' }, caller, subject);
  if (action !== null) await audit.recordRepeated(action);
}

export function auditRefusal(
  { audit }: Pick<Services, 'audit'>,
  operation: Operation,
  { caller, input }: { caller: Caller; input: unknown },
  { code }: Refusal,
): void {
  if (!AUDITED_REFUSALS.has(code)) return;
  const action = auditedActionOf(operation, caller, defaultSubject(operation, caller, input));
  if (action !== null) audit.recordRefusal(action, code);
}

/**
 * Audits the read of a platform operator in a tenant that is not their own, in the audit of that tenant; of several tenants,
 * or of the service, in that of the service. Resolves when the row is durable; repeated reads share one row for a minute.
 */
export async function auditOperatorRead(
  { audit }: Pick<Services, 'audit'>,
  operation: Operation,
  { caller, input }: Pick<Call<unknown>, 'caller' | 'input'>,
): Promise<void> {
  if (operation.changes || !caller.platformAdmin) return;
  const subject = defaultSubject(operation, caller, input);
  const isForeign =
    operation.acrossTenants && (subject.tenantId !== caller.tenantId || namesPlatform(operation, caller, input));
  if (!isForeign && operation.audit !== 'read') return;
  const action = auditedActionOf(operation, caller, subject);
  if (action !== null) await audit.recordRepeated(action);
}

/** The same for a stream of another tenant's updates. */
export async function auditOperatorStream(
  { audit }: Pick<Services, 'audit'>,
  caller: Caller,
  tenantId: Uuid,
  path: string,
): Promise<void> {
  const action = auditedActionOf({ name: 'openWebSocket' }, caller, { subject: `stream:${path}`, tenantId });
  if (action !== null) await audit.recordRepeated(action);
}

/** The part of an audit row that says where a request came from. */
export const originOf = ({
  requestId,
  address = null,
  client,
}: Pick<SignInAttempt, 'requestId' | 'client'> & Pick<Caller, 'address'>): Pick<
  AuditedAction,
  'requestId' | 'address' | 'client'
> => ({
  ...{ requestId, address, client: cleanClientName(client) },
});

/** Null without a user: an unauthenticated operation whose subject names no user. */
export function auditedActionOf(
  { name: action }: Pick<Operation, 'name'>,
  caller: Caller,
  given: AuditSubject,
): AuditedAction | null {
  const subject = typeof given === 'string' ? { subject: given } : given;
  const by = subject.by ?? caller.user?.id;
  if (by === undefined) return null;
  const { key = null, via = null } = caller.principal;
  return {
    tenantId: subject.tenantId === undefined ? caller.tenantId : subject.tenantId,
    ...{ by, key, via, action, subject: subject.subject, ...originOf(caller) },
  };
}

/** A platform operator acts in the tenant named by the input, or in none. */
function defaultSubject(operation: Operation, caller: Caller, input: unknown): Exclude<AuditSubject, string> {
  const named = operation.acrossTenants && caller.platformAdmin ? tenantIn(input) : null;
  const isOfService = caller.platformAdmin && (operation.platformOnly || namesPlatform(operation, caller, input));
  const tenantId = isOfService ? null : (named ?? caller.tenantId);
  return { subject: subjectIn(operation, input) ?? (tenantId === null ? 'service' : `tenant:${tenantId}`), tenantId };
}

/** Whether a platform operator asks for what belongs to no tenant. */
const namesPlatform = ({ acrossTenants }: Operation, { platformAdmin }: Caller, input: unknown): boolean =>
  acrossTenants === true && platformAdmin && z.object({ platform: z.literal(true) }).safeParse(input).success;

function tenantIn(input: unknown): Uuid | null {
  const parsed = z.object({ tenant_id: uuid }).safeParse(input);
  return parsed.success ? parsed.data.tenant_id : null;
}

/** The last id in the input; a value that fails its schema is ignored. */
function subjectIn({ input: schema }: Operation, input: unknown): string | null {
  if (!(schema instanceof z.ZodObject) || typeof input !== 'object' || input === null) return null;
  let named: string | null = null;
  for (const [member, field] of Object.entries(schema.shape)) {
    const inner = field instanceof z.ZodOptional || field instanceof z.ZodNullable ? field.unwrap() : field;
    const noun = inner instanceof z.ZodType ? inner.meta()?.noun : undefined;
    const given = (input as Record<string, unknown>)[member];
    if (typeof noun !== 'string' || typeof given !== 'string') continue;
    const parsed = (inner as z.ZodType).safeParse(given);
    if (parsed.success && VISIBLE.test(`${parsed.data}`)) named = `${noun}:${parsed.data}`;
  }
  return named;
}

import { z } from 'zod';
import type { Refusal, RefusalCode } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';
import type { AuditedAction } from '../services/audit-writer.ts';
import type { Answer, AuditSubject, Call, Caller, Operation, Services } from './operation.ts';

// What of the operations comes into the audit, and as what (contract §6).

/** Attempts that somebody would want to know of; a gateway's refusal stands in the journal of its command. */
const AUDITED_REFUSALS: ReadonlySet<RefusalCode> = new Set([
  'FORBIDDEN_ROLE',
  'INSUFFICIENT_SCOPE',
  'FORBIDDEN',
  'CONFIRMATION_FAILED',
  'CSRF_FAILED',
]);

const VISIBLE = /^[\x21-\x7e]{1,200}$/;

/** Whether what it does is to be written down here: it changes something, and no journal says so. */
export const isAudited = ({ changes, audit }: Operation): boolean => changes && audit === undefined;

/** Resolves when what was done is on record. */
export async function auditDone(
  { audit }: Pick<Services, 'audit'>,
  operation: Operation,
  call: Call<unknown>,
  answer: Answer<unknown>,
): Promise<void> {
  const about =
    answer.about ?? operation.auditSubject?.(call, answer.body) ?? defaultSubject(operation, call.caller, call.input);
  const deed = auditedActionOf(operation, call.caller, about);
  if (deed !== null) await audit.recordDone(deed);
}

export function auditRefusal(
  { audit }: Pick<Services, 'audit'>,
  operation: Operation,
  { caller, input }: { caller: Caller; input: unknown },
  { code }: Refusal,
): void {
  if (!AUDITED_REFUSALS.has(code)) return;
  const deed = auditedActionOf(operation, caller, defaultSubject(operation, caller, input));
  if (deed !== null) audit.recordRefusal(deed, code);
}

/** Null where nobody did it: what needs no authentication and tells of no user. */
function auditedActionOf(operation: Operation, caller: Caller, about: AuditSubject): AuditedAction | null {
  const whole = typeof about === 'string' ? { subject: about } : about;
  const by = whole.by ?? caller.user?.id;
  if (by === undefined) return null;
  const { key = null, via = null } = caller.principal;
  return {
    tenantId: whole.tenantId === undefined ? caller.tenantId : whole.tenantId,
    ...{ by, key, via, action: operation.name, subject: whole.subject, requestId: caller.requestId },
  };
}

/** A platform operator acts in the tenant that is asked for, or in none. */
function defaultSubject(operation: Operation, caller: Caller, input: unknown): Exclude<AuditSubject, string> {
  const asked = operation.acrossTenants && caller.platformAdmin ? tenantIn(input) : null;
  const tenantId = operation.platformOnly && caller.platformAdmin ? null : (asked ?? caller.tenantId);
  return { subject: subjectIn(operation, input) ?? (tenantId === null ? 'service' : `tenant:${tenantId}`), tenantId };
}

function tenantIn(input: unknown): Uuid | null {
  const parsed = z.object({ tenant_id: z.uuid().toLowerCase() }).safeParse(input);
  return parsed.success ? parsed.data.tenant_id : null;
}

/** The last thing that the input names; an input that was refused is not believed. */
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

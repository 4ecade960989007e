import type { SafetyPolicy } from '../../src/domain/policy.ts';
import type { TestTenant } from './test-tenant.ts';

/** Sets the policy of a tenant; a looser one is confirmed by an admin other than the owner. */
export async function setPolicy(
  { call, tokens }: Pick<TestTenant, 'call' | 'tokens'>,
  policy: Partial<SafetyPolicy>,
  { token = tokens.owner, admin = tokens.admin }: { token?: string; admin?: string } = {},
): Promise<SafetyPolicy> {
  const answer = await call('PATCH', '/tenant/policy', policy, { token });
  if (answer.status === 200) return answer.body.policy;
  const applied = await call('POST', `/change-requests/${answer.body.change_id}/approve`, undefined, { token: admin });
  if (applied.status !== 200) throw new Error(JSON.stringify([answer.body, applied.body]));
  return applied.body.result.policy;
}

import { describe, expect, it } from 'vitest';
import {
  confirmers,
  type EarlierRules,
  expiredUntil,
  looserRules,
  rememberRules,
  rulesSince,
  type SafetyPolicy,
} from '../../src/domain/policy.ts';
import { expectReached, fc, runs } from '../support/properties.ts';

const policies: fc.Arbitrary<SafetyPolicy> = fc.record({
  confirm_by: fc.constantFrom(...confirmers),
  agent_confirm_by: fc.constantFrom(...confirmers),
  confirm_ttl_s: fc.integer({ min: 60, max: 90 }),
});

/** Some of them get looser with every change. */
const histories = fc
  .tuple(fc.array(policies, { minLength: 2, maxLength: 60, size: 'max' }), fc.boolean())
  .map(([changes, sorted]) => (sorted ? changes.sort((a, b) => a.confirm_ttl_s - b.confirm_ttl_s) : changes));

describe('looserRules', () => {
  it.each([
    ['requester', 'person', 0],
    ['requester', 'another_principal', 0],
    ['person', 'person', 0],
    ['person', 'requester', 1],
    ['another_principal', 'requester', 1],
    ['person', 'another_principal', 1],
    ['another_principal', 'person', 1],
  ] as const)('%s → %s has %i sentences', (from, to, sentences) => {
    const policy = (confirm_by: SafetyPolicy['confirm_by'], confirm_ttl_s: number) => ({ confirm_by, confirm_ttl_s });
    expect(looserRules(policy(from, 300), policy(to, 300))).toHaveLength(sentences);
    expect(looserRules(policy(from, 300), policy(to, 299))).toHaveLength(sentences);
    expect(looserRules(policy(from, 300), policy(to, 301))).toHaveLength(sentences + 1);
    const forAgents = (agent_confirm_by: SafetyPolicy['confirm_by']) => ({ ...policy(from, 300), agent_confirm_by });
    expect(looserRules(forAgents(from), forAgents(to))).toHaveLength(sentences);
  });
});

describe('rulesSince', () => {
  it('are at least as strict as every policy since then, whatever the changes were', () => {
    let combined = 0;
    fc.assert(
      fc.property(histories, fc.nat(59), (changes, start) => {
        let earlier: readonly EarlierRules[] = [];
        changes.forEach((after, at) => {
          const before = changes[at - 1];
          if (before !== undefined) earlier = rememberRules(earlier, before, after, at);
        });
        expect(earlier.length).toBeLessThanOrEqual(16);
        if (earlier.some(({ confirm_by }) => confirm_by.length > 1)) combined++;
        const since = Math.min(start, changes.length - 1);
        const policy = changes.at(-1) as SafetyPolicy;
        const rules = rulesSince(policy, earlier, since);
        const end = since + rules.confirm_ttl_s * 1_000;
        for (const now of [end - 1, end])
          if (now >= changes.length) expect(expiredUntil(policy, earlier, now) >= since).toBe(now === end);
        for (const { confirm_by, agent_confirm_by = 'person', confirm_ttl_s } of changes.slice(since)) {
          expect(rules.confirm_ttl_s).toBeLessThanOrEqual(confirm_ttl_s);
          if (confirm_by !== 'requester') expect(rules.confirm_by).toContain(confirm_by);
          if (agent_confirm_by !== 'requester') expect(rules.agent_confirm_by).toContain(agent_confirm_by);
        }
      }),
      runs(300),
    );
    expectReached(() => expect(combined).toBeGreaterThan(0));
  });

  it('are the current ones for what began after the last change', () => {
    const [strict, loose] = [
      { confirm_by: 'person', confirm_ttl_s: 60 },
      { confirm_by: 'requester', agent_confirm_by: 'requester', confirm_ttl_s: 300 },
    ] as const;
    const earlier = rememberRules([], strict, loose, 10);
    expect(rulesSince(loose, earlier, 9)).toEqual({
      ...{ confirm_by: ['requester', 'person'], agent_confirm_by: ['requester', 'person'], confirm_ttl_s: 60 },
    });
    expect(rulesSince(loose, earlier, 10)).toEqual({
      ...{ confirm_by: ['requester'], agent_confirm_by: ['requester'], confirm_ttl_s: 300 },
    });
    expect(rememberRules([], loose, strict, 10)).toEqual([]);
  });
});

import { expect, it } from 'vitest';
import { ConcurrencyLimiter } from '../../src/services/concurrency-limiter.ts';

/** `ok`, or the code of the refusal. */
const begin = (exports: ConcurrencyLimiter, tenantId: string | null): string => {
  const begun = exports.begin(tenantId);
  return begun.ok ? 'ok' : begun.refusal.code;
};

it('a tenant has two exports at the same time, and all tenants of a node eight', () => {
  const exports = new ConcurrencyLimiter('audit_exports');
  const first = exports.begin('a');
  expect([begin(exports, 'a'), begin(exports, 'a')]).toEqual(['ok', 'RATE_LIMIT_EXCEEDED']);
  for (const tenantId of ['b', 'c', 'd', 'e', 'f', 'g']) expect(begin(exports, tenantId)).toBe('ok');
  expect(begin(exports, 'h')).toBe('OVERLOADED');
  if (first.ok) first.value();
  expect([begin(exports, 'h'), begin(exports, 'i')]).toEqual(['ok', 'OVERLOADED']);
});

it('the service can export its own log while tenants use all their exports, and they while it does', () => {
  const exports = new ConcurrencyLimiter('audit_exports');
  expect(begin(exports, null)).toBe('ok');
  for (const tenantId of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) expect(begin(exports, tenantId)).toBe('ok');
  expect([begin(exports, 'i'), begin(exports, null), begin(exports, null)]).toEqual([
    ...['OVERLOADED', 'ok', 'RATE_LIMIT_EXCEEDED'],
  ]);
});

it('a kind of work has its own limits, and its own count', () => {
  const queries = new ConcurrencyLimiter('history_queries');
  expect(['a', 'a', 'a', 'a', 'a'].map((id) => begin(queries, id))).toEqual([
    ...['ok', 'ok', 'ok', 'ok', 'RATE_LIMIT_EXCEEDED'],
  ]);
  expect(queries.sizes()).toEqual({ history_queries: 1 });
  expect(begin(new ConcurrencyLimiter('history_exports'), 'a')).toBe('ok');
});

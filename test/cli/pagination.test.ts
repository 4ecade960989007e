import { expect, it } from 'vitest';
import type { Api } from '../../src/cli/api.ts';
import { fetchPages } from '../../src/cli/pagination.ts';

it('pages have at most 200 entries, and the last one as many as are missing', async () => {
  const limits: string[] = [];
  const get = async (_path: string, { limit = '', cursor = '0' }: Record<string, string | undefined>) => {
    limits.push(limit);
    const next = Number(cursor) + Number(limit);
    return { rows: Array.from({ length: Number(limit) }), next_cursor: next < 1_000 ? String(next) : null };
  };
  const all = { name: 'rows', query: {} } as const;
  type Body = { rows: unknown[]; next_cursor: string | null };
  const api = { get } as unknown as Api;
  expect((await fetchPages<Body>(api, '/rows', { ...all, limit: 450 })).rows).toHaveLength(450);
  expect(limits.splice(0)).toEqual(['200', '200', '50']);
  expect((await fetchPages<Body>(api, '/rows', { ...all, limit: Number.POSITIVE_INFINITY })).rows).toHaveLength(1_000);
});

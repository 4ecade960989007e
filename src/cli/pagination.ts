import type { Api } from './api.ts';

type Page = { next_cursor: string | null };
type Query = Readonly<Record<string, string | readonly string[] | undefined>> & { cursor?: string | undefined };

/** The maximum of the service. */
const PAGE_ENTRIES = 200;
/** Upper bound on requests: with a selective filter, pages can be short or empty. */
const MAX_PAGES = 100;

/** Fetches pages until there are `limit` entries under `name` or none are left; returns them as one page. */
export async function fetchPages<Body extends Page>(
  api: Api,
  path: string,
  { name, limit, query }: { name: keyof Body & string; limit: number; query: Query },
): Promise<Body> {
  const entries: unknown[] = [];
  let cursor = query.cursor;
  for (let n = 0; ; n++) {
    const body = await api.get<Body>(path, {
      ...query,
      limit: String(Math.min(PAGE_ENTRIES, limit - entries.length)),
      cursor,
    });
    entries.push(...(body[name] as unknown[]));
    cursor = body.next_cursor ?? undefined;
    if (cursor === undefined || entries.length >= limit || n >= MAX_PAGES) return { ...body, [name]: entries };
  }
}

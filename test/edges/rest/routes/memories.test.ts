import { v4, v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { CallOptions, CallResult, HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const given = { kind: 'preference', subject: 'living room', content: 'Warm light in the evening.', tags: ['light'] };
const write = (more: object = {}, sent?: CallOptions): Promise<CallResult> =>
  mine.call('POST', '/memories', { ...given, ...more }, sent);
const list = (query: Record<string, string> = {}, sent?: CallOptions): Promise<CallResult> =>
  mine.call('GET', `/memories?${new URLSearchParams(query)}`, undefined, sent);
const contents = async (query: Record<string, string> = {}): Promise<string[]> =>
  (await list(query)).body.memories.map(({ content }: { content: string }) => content);
const isoAt = (at: number): string => new Date(at).toISOString();
const code = ({ status, body }: CallResult) => [status, body?.code];

describe('a memory', () => {
  it('is returned as it is listed, without absent fields', async () => {
    const { status, body } = await write();
    expect(status).toBe(201);
    expect(body.memory).toEqual({
      ...given,
      ...{ id: expect.stringMatching(/^[0-9a-f-]{36}$/), source: `user:${mine.userId}` },
      ...{ writer: 'person', suggestion: false },
      created_at: isoAt(service.clock.now()),
    });
    const bare = (await mine.call('POST', '/memories', { kind: 'observation', content: 'x' })).body.memory;
    expect(Object.keys(bare)).toEqual([
      ...['id', 'kind', 'content', 'tags', 'source', 'writer', 'suggestion', 'created_at'],
    ]);
    expect((await list()).body).toEqual({ memories: [bare, body.memory], count: 2, next_cursor: null });
  });

  it('has its author as source, who cannot choose it', async () => {
    const { key, prefix } = (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes: ['write:memory'] }))
      .body;
    expect((await write({}, { token: key })).body.memory.source).toBe(`key:${prefix}`);
    expect(code(await write({ source: 'user:somebody' }))).toEqual([400, 'VALIDATION_FAILED']);
    expect(code(await list({}, { token: key }))).toEqual([403, 'INSUFFICIENT_SCOPE']);
  });

  it('can be read by viewers, and written and deleted by users', async () => {
    const { id } = (await write({}, { token: mine.tokens.user })).body.memory;
    const viewer = { token: mine.tokens.viewer };
    expect((await list({}, viewer)).body.memories).toHaveLength(1);
    expect(code(await write({}, viewer))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(code(await mine.call('DELETE', `/memories/${id}`, undefined, viewer))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect((await mine.call('DELETE', `/memories/${id}`, undefined, { token: mine.tokens.user })).status).toBe(204);
    expect(code(await mine.call('DELETE', `/memories/${id}`))).toEqual([404, 'NOT_FOUND']);
    expect(await contents()).toEqual([]);
  });

  it('of another tenant is answered like a missing one', async () => {
    const other = await makeTestTenant(service);
    const { id } = (await other.call('POST', '/memories', given)).body.memory;
    const [theirs, nobodys, noId] = await Promise.all(
      [id, v4(), 'x'].map((one) => mine.call('DELETE', `/memories/${one}`)),
    );
    const sent = ({ status, body: { instance: _, request_id: __, ...rest } }: CallResult) => ({ status, ...rest });
    expect(sent(theirs as CallResult)).toEqual({ ...sent(nobodys as CallResult), status: 404 });
    expect(sent(noId as CallResult)).toEqual(sent(theirs as CallResult));
    for (const query of [{}, { q: 'light' }, { q: '-x' }, { tag: 'light' }, { subject: 'living room' }]) {
      expect((await list(query)).body.memories).toEqual([]);
    }
    expect((await other.call('GET', '/memories')).body.memories).toHaveLength(1);
  });

  it('is audited when written and deleted, without its text', async () => {
    const { id } = (await write()).body.memory;
    service.clock.advance(1);
    await mine.call('DELETE', `/memories/${id}`);
    const { body } = await mine.call('GET', `/audit?subject=memory:${id}`);
    expect(body.entries.map(({ action }: { action: string }) => action)).toEqual(['deleteMemory', 'writeMemory']);
    expect(JSON.stringify(body)).not.toContain('Warm');
  });

  it('is stored once for an idempotent request, with one write', async () => {
    const { insert } = service.store.memories;
    const { put } = service.store.idempotency;
    let [inserts, puts] = [0, 0];
    service.store.memories.insert = (...all) => {
      inserts++;
      return insert(...all);
    };
    service.store.idempotency.put = (row) => {
      puts++;
      return put(row);
    };
    const headers = { 'idempotency-key': v4() };
    const answers = [await write({}, { headers }), await write({}, { headers })];
    service.store.memories.insert = insert;
    service.store.idempotency.put = put;
    expect(answers[1]?.body).toEqual(answers[0]?.body);
    expect(answers[1]?.headers.get('idempotent-replayed')).toBe('true');
    expect(await contents()).toHaveLength(1);
    expect([inserts, puts]).toEqual([1, 0]);
    expect(code(await write({ content: 'other' }, { headers }))).toEqual([422, 'IDEMPOTENCY_MISMATCH']);
  });

  it('above the limit of the tenant is refused, and accepted with the same key when there is space', async () => {
    const { insert } = service.store.memories;
    const headers = { 'idempotency-key': v4() };
    service.store.memories.insert = (memory, most, also) => insert(memory, most - 10_000, also);
    const refused = await write({}, { headers });
    service.store.memories.insert = insert;
    expect(code(refused)).toEqual([409, 'CONFLICT']);
    expect((await write({}, { headers })).status).toBe(201);
  });

  it('that is a suggestion displaces only older suggestions, whatever their number', async () => {
    const { key } = (await mine.call('POST', '/auth/api-keys', { name: 'notes', scopes: ['write:memory'] })).body;
    const { insert } = service.store.memories;
    // Two suggestions, and two others.
    service.store.memories.insert = (memory, most, also) => insert(memory, most === 1_000 ? 2 : most - 9_998, also);
    await write({ kind: 'observation', content: 'observation of a person' });
    for (const n of [1, 2, 3, 4]) {
      const suggested = await write({ kind: 'routine', content: `suggestion ${n}` }, { token: key });
      expect([suggested.status, suggested.body.memory.suggestion]).toEqual([201, true]);
    }
    expect((await write({ kind: 'routine', content: 'routine of a person' })).status).toBe(201);
    service.store.memories.insert = insert;
    expect(new Set(await contents())).toEqual(
      new Set(['observation of a person', 'suggestion 3', 'suggestion 4', 'routine of a person']),
    );
  });

  it('can fill the limit exactly, under concurrent requests', async () => {
    const { insert } = service.store.memories;
    service.store.memories.insert = (memory, most, also) => insert(memory, most - 9_997, also);
    const answers = await Promise.all(Array.from({ length: 10 }, () => write()));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(3);
    // Preferences are not deleted to make room for an observation.
    expect(code(await write({ kind: 'observation' }))).toEqual([409, 'CONFLICT']);
    service.store.memories.insert = insert;
    expect(await contents()).toHaveLength(3);
  });
});

describe('the text of a memory', () => {
  it.each([
    ['at 4096 bytes', 'é'.repeat(2_048), 201],
    ['over 4096 bytes', `${'é'.repeat(2_048)}x`, 400],
    ['over 4096 characters', 'x'.repeat(4_097), 400],
    ['empty', '', 400],
    ['blank', ' \n\t', 400],
    ['with an escape', 'a\u001b[2Jb', 400],
    ['with hidden letters', 'a\u{e0061}', 400],
    ['no text', { on: true }, 400],
    ['in several lines and scripts', 'Gute Nacht:\n\t1. Licht aus 💡\n夜は暖房を切る', 201],
  ])('%s is accepted or not', async (_, content, status) => {
    expect((await write({ content })).status).toBe(status);
  });

  it('has normalized line ends, and is otherwise unchanged', async () => {
    const { body } = await write({ content: ' a\r\nb\rc "; drop table memories; --\n' });
    expect(body.memory.content).toBe(' a\nb\nc "; drop table memories; --\n');
  });

  it.each([
    [{ tags: Array.from({ length: 16 }, (_, n) => `${n}`) }, 201],
    [{ tags: Array.from({ length: 17 }, (_, n) => `${n}`) }, 400],
    [{ tags: ['x'.repeat(64)] }, 201],
    [{ tags: ['x'.repeat(65)] }, 400],
    [{ tags: [' '] }, 400],
    [{ tags: ['a\nb'] }, 400],
    [{ tags: 'light' }, 400],
    [{ subject: 'x'.repeat(200) }, 201],
    [{ subject: 'x'.repeat(201) }, 400],
    [{ subject: 'a\u0000b' }, 400],
    [{ kind: 'dream' }, 400],
    [{ id: v7() }, 400],
    [{ expires_at: null }, 201],
    [{ expires_at: 'tomorrow' }, 400],
  ])('and the other fields are bounded: %#', async (more, status) => {
    expect((await write(more)).status).toBe(status);
  });

  it('has each tag once, in order of arrival', async () => {
    expect((await write({ tags: ['b', ' a', 'b', 'A', 'a'] })).body.memory.tags).toEqual(['b', 'a', 'A']);
  });
});

describe('a memory with an expiry', () => {
  it('must expire in the future, by at least a millisecond', async () => {
    const now = service.clock.now();
    const past = await write({ expires_at: isoAt(now) });
    expect([...code(past), past.body.errors]).toEqual([
      ...[400, 'VALIDATION_FAILED'],
      [{ path: 'expires_at', message: 'must be in the future' }],
    ]);
    expect((await write({ expires_at: isoAt(now + 1) })).body.memory.expires_at).toBe(isoAt(now + 1));
  });

  it('exists until then, and is afterwards neither listed, found, nor deleted', async () => {
    const { id } = (await write({ expires_at: isoAt(service.clock.now() + 60_000) })).body.memory;
    service.clock.advance(59_999);
    expect(await contents({ q: 'warm' })).toHaveLength(1);
    service.clock.advance(1);
    expect([await contents(), await contents({ q: 'warm' }), await contents({ tag: 'light' })]).toEqual([[], [], []]);
    expect(code(await mine.call('DELETE', `/memories/${id}`))).toEqual([404, 'NOT_FOUND']);
  });
});

describe('the list of memories', () => {
  it('combines kind, subject, tag and full text', async () => {
    await write();
    await write({ kind: 'routine', content: 'Cold light at noon', tags: ['light', 'noon'] });
    await write({ subject: 'bath', content: 'Warm water', tags: [] });
    expect(await contents({ kind: 'preference', subject: 'living room', tag: 'light', q: 'light -cold' })).toEqual([
      given.content,
    ]);
    expect(await contents({ q: 'warm' })).toEqual(['Warm water', given.content]);
    expect(await contents({ q: '"warm light" or noon' })).toEqual(['Cold light at noon', given.content]);
    expect(await contents({ subject: ' bath ' })).toEqual(['Warm water']);
    expect(await contents({ tag: 'noo' })).toEqual([]);
  });

  it.each(['& | !', '"', '-', "'; select pg_sleep(9); --", ':*', '\\', '()', '%', 'light & !light'])(
    'accepts %j as plain text',
    async (q) => {
      await write();
      expect((await list({ q })).status).toBe(200);
    },
  );

  it.each([{ kind: 'dream' }, { q: '' }, { q: 'x'.repeat(257) }, { tag: '' }, { limit: '0' }, { cursor: 'junk' }])(
    'refuses %j',
    async (query) => {
      expect(code(await list(query as Record<string, string>))).toEqual([400, 'VALIDATION_FAILED']);
    },
  );

  it('has pages that insertions do not shift, with cursors for these filters only', async () => {
    for (let n = 0; n < 5; n++) {
      await write({ content: `light ${n}` });
      if (n % 2) service.clock.advance(1);
    }
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const { body } = (await list({ q: 'light', limit: '2', ...(cursor && { cursor }) })) as CallResult;
      seen.push(...body.memories.map(({ content }: { content: string }) => content));
      cursor = body.next_cursor;
      await write({ content: 'light later' });
    } while (cursor !== null);
    expect(seen).toEqual([4, 3, 2, 1, 0].map((n) => `light ${n}`));
    const { next_cursor } = (await list({ q: 'light', limit: '1' })).body;
    for (const query of [{}, { q: 'Light' }, { q: 'light', kind: 'preference' }, { tag: 'light' }]) {
      expect((await list({ ...query, cursor: next_cursor } as Record<string, string>)).status).toBe(400);
    }
  });
});

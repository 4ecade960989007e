import { afterEach, expect, it, vi } from 'vitest';
import { LiveActorList } from '../../../console/src/actors/live-actor-list.ts';

const [id, at] = ['0195d9a2-7f00-7000-8000-000000000001', Date.parse('2026-01-01T00:00:00Z')];
const actor = (state: string, since: number) => ({
  ...{ kind: 'command', id, name: 'turn_on', state, since: new Date(since).toISOString() },
  ...{ live: true, mailbox: 0, quarantined: false },
});
const transition = (from: string | null, to: string, when: number) =>
  ({ kind: 'command', id, from, to, event: 'ack.received', at: when }) as const;

let list: LiveActorList | null = null;
afterEach(() => {
  list?.close();
  vi.unstubAllGlobals();
});

/** A list whose request is answered by the function that is returned. */
function requested() {
  let answer = (_state: string, _since: number): void => {};
  const answered = new Promise<Response>((resolve) => {
    answer = (state, since) => resolve(Response.json({ actors: [actor(state, since)], next_cursor: null }));
  });
  vi.stubGlobal('fetch', () => answered);
  list = new LiveActorList({});
  list.open();
  return { list, answer };
}

it.each([
  ['that was read before it', 'acknowledged', at, 'succeeded'],
  ['that was read after a later one', 'expired', at + 2, 'expired'],
])('a transition during a request is not lost in an answer %s', async (_, state, since, shown) => {
  const { list, answer } = requested();
  list.applyTransitions([transition('acknowledged', 'succeeded', at + 1)]);
  answer(state, since);
  await vi.waitFor(() => expect(list.view().loading).toBe(false));
  expect(list.view().entries).toMatchObject([{ id, state: shown }]);
});

it('an actor that is created and changed at once is requested', async () => {
  const answers = [[], [actor('succeeded', at)]];
  vi.stubGlobal('fetch', async () => Response.json({ actors: answers.shift(), next_cursor: null }));
  list = new LiveActorList({});
  const shown = list;
  list.open();
  await vi.waitFor(() => expect(shown.view().loading).toBe(false));
  expect(shown.view().entries).toEqual([]);
  list.applyTransitions([transition(null, 'dispatched', at), transition('dispatched', 'succeeded', at + 1)]);
  await vi.waitFor(() => expect(shown.view().entries).toMatchObject([{ id, state: 'succeeded' }]));
});

import { v7 } from 'uuid';
import { expect, it } from 'vitest';
import type { Actors } from '../../../src/actors/contract.ts';
import { parseResourceUri } from '../../../src/edges/mcp/resources.ts';
import { type Subscriber, Subscriptions } from '../../../src/edges/mcp/subscriptions.ts';
import { eventually } from '../../support/clock.ts';

type Watcher = Parameters<Actors['subscribeTransitions']>[0];

function followed() {
  const watchers = new Set<Watcher>();
  const subscriptions = new Subscriptions({
    subscribeTransitions(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  });
  const happen = (kind: string, id: string, fixed: object = {}, type = 'state.reported') => {
    for (const watcher of watchers) {
      watcher({ ref: { kind, id }, snapshot: { value: null, context: { fixed } } } as never, { type } as never, null);
    }
  };
  const notified: string[][] = [];
  let reads = true;
  const follower: Subscriber = {
    tenantId: 't',
    reach: null,
    isClosed: false,
    notify(uris) {
      if (reads) notified.push([...uris]);
      return reads;
    },
  };
  const add = (uri: string) => subscriptions.add(follower, parseResourceUri(uri) as never);
  const reading = (state: boolean) => {
    reads = state;
  };
  return { watchers, subscriptions, happen, notified, follower, add, reading };
}

it('the event bus has no subscriber without subscriptions', () => {
  const { watchers, subscriptions, follower, add } = followed();
  expect(watchers.size).toBe(0);
  add(`twin://devices/${v7()}`);
  expect(watchers.size).toBe(1);
  subscriptions.removeSubscriber(follower);
  expect(watchers.size).toBe(0);
});

it('one session has at most 200 subscriptions', () => {
  const { add } = followed();
  const first = `twin://plans/${v7()}`;
  expect(add(first)).toBe(true);
  for (let n = 1; n < 200; n++) expect(add(`twin://devices/${v7()}`)).toBe(true);
  expect(add(`twin://devices/${v7()}`)).toBe(false);
  expect(add(first)).toBe(true);
});

it('a home is updated when a device of it changes, and when one leaves it', async () => {
  const { happen, notified, add } = followed();
  const home = v7();
  const uri = `twin://homes/${home}`;
  add(uri);
  happen('device', v7(), { homeId: home, tenantId: 't' });
  await eventually(() => notified.length === 1);
  happen('device', v7(), { homeId: v7(), tenantId: 't' });
  happen('device', v7(), { homeId: v7(), tenantId: 'another' }, 'patch');
  happen('device', v7(), { homeId: v7(), tenantId: 't' }, 'patch');
  await eventually(() => notified.length === 2);
  expect(notified).toEqual([[uri], [uri]]);
});

it('a client that does not read at the moment is notified later, once', async () => {
  const { subscriptions, happen, notified, add, reading } = followed();
  const id = v7();
  add(`twin://plans/${id}`);
  reading(false);
  happen('plan', id);
  happen('plan', id);
  subscriptions.flush();
  expect(notified).toEqual([]);
  reading(true);
  subscriptions.flush();
  subscriptions.flush();
  expect(notified).toEqual([[`twin://plans/${id}`]]);
});

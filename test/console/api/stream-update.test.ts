import { QueryClient } from '@tanstack/react-query';
import { expect, it } from 'vitest';
import { applyUpdate } from '../../../console/src/api/stream-update.ts';

interface Light {
  level: number;
  name: string;
}

const key = ['/v1/devices/light'];

/** A query whose requests are answered by the test. */
function makeQuery() {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const requests: PromiseWithResolvers<Light>[] = [];
  const request = () =>
    queries
      .fetchQuery({
        queryKey: key,
        queryFn() {
          const answer = Promise.withResolvers<Light>();
          requests.push(answer);
          return answer.promise;
        },
      })
      .catch(() => {});
  const setLevel = (level: number) => applyUpdate<Light>(queries, key, (light) => ({ ...light, level }));
  const answer = (index: number, level: number) => requests[index]?.resolve({ level, name: 'Light' });
  return { queries, requests, request, setLevel, answer, level: () => queries.getQueryData<Light>(key)?.level };
}

it('an update replaces what is cached, and nothing without a cached answer', () => {
  const { queries, setLevel, level } = makeQuery();
  setLevel(1);
  expect(level()).toBeUndefined();
  queries.setQueryData(key, { level: 2, name: 'Light' });
  setLevel(3);
  expect(queries.getQueryData(key)).toEqual({ level: 3, name: 'Light' });
});

it('an answer that was under way does not undo the updates since its request, in their order', async () => {
  const { request, setLevel, answer, level } = makeQuery();
  const first = request();
  setLevel(1);
  setLevel(2);
  answer(0, 0);
  await first;
  expect(level()).toBe(2);

  const second = request();
  setLevel(3);
  expect(level()).toBe(3);
  answer(1, 2);
  await second;
  expect(level()).toBe(3);
});

it('a request that is sent after an update is answered with what the service knows', async () => {
  const { requests, request, setLevel, answer, level } = makeQuery();
  const first = request();
  setLevel(1);
  requests[0]?.reject(new Error('unreachable'));
  await first;
  const second = request();
  answer(1, 5);
  await second;
  expect(level()).toBe(5);
});

it('a request that replaces one that is under way is answered without the updates before it', async () => {
  const { queries, requests, request, setLevel, answer, level } = makeQuery();
  const first = request();
  answer(0, 0);
  await first;
  const second = request();
  setLevel(1);
  // As when the stream is open again, after an update was missed.
  const third = queries.refetchQueries({ queryKey: key });
  setLevel(2);
  expect(requests).toHaveLength(3);
  answer(2, 3);
  await Promise.all([second, third]);
  expect(level()).toBe(2);

  const fourth = request();
  setLevel(4);
  const fifth = queries.refetchQueries({ queryKey: key });
  answer(4, 5);
  await Promise.all([fourth, fifth]);
  expect(level()).toBe(5);
});

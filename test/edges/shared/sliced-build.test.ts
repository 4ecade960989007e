import { setImmediate as nextPass } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { openApiSteps } from '../../../src/edges/rest/openapi.ts';
import { routeGroups } from '../../../src/edges/rest/routes.ts';
import { SlicedBuild } from '../../../src/edges/shared/sliced-build.ts';

/** A build of `steps` steps, during each of which 2 ms pass, and the steps that are done. */
function slowBuild(steps: number) {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  const done: number[] = [];
  const build = new SlicedBuild(
    (function* () {
      for (let step = 0; step < steps; step++) {
        now += 2;
        done.push(step);
        yield;
      }
      return 'built';
    })(),
  );
  return { build, done };
}

describe('a value that is built in slices', () => {
  it('lets the event loop continue after each 5 ms, and is built once', async () => {
    const { build, done } = slowBuild(10);
    const [first, second] = [build.build(), build.build()];
    const counts: number[] = [];
    while (done.length < 10) {
      counts.push(done.length);
      await nextPass();
    }
    expect(counts).toEqual([3, 6, 9]);
    expect([await first, await second, build.get()]).toEqual(['built', 'built', 'built']);
    expect(done).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('is completed at once for a caller that cannot wait', async () => {
    const { build, done } = slowBuild(10);
    const waiting = build.build();
    expect(done).toHaveLength(3);
    expect(build.get()).toBe('built');
    expect(done).toHaveLength(10);
    expect(await waiting).toBe('built');
  });

  it('fails each time with the error of its step', async () => {
    const build = new SlicedBuild<string>(
      // biome-ignore lint/correctness/useYield: it fails at its first step
      (function* () {
        throw new Error('no such type');
      })(),
    );
    await expect(build.build()).rejects.toThrow('no such type');
    expect(() => build.get()).toThrow('no such type');
  });

  it('has a step for each route of the OpenAPI document', () => {
    const routes = routeGroups.flatMap((group) => group.routes);
    expect([...openApiSteps(routeGroups, [])]).toHaveLength(routes.length);
  });
});

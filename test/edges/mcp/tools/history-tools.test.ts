import { describe, expect, it } from 'vitest';
import { done, refuse } from '../../../../src/domain/refusals.ts';
import type { JsonObject } from '../../../../src/domain/values.ts';
import { historyTools } from '../../../../src/edges/mcp/tools/history-tools.ts';
import type { McpToolCall } from '../../../../src/edges/mcp/tools/tool.ts';
import { testClock } from '../../../support/clock.ts';

const NOW = Date.UTC(2026, 2, 1, 12);
const HOME = '0195d9a2-7f00-7000-8000-000000000001';
const BUSY = '0195d9a2-7f00-7000-8000-000000000002';
const QUIET = '0195d9a2-7f00-7000-8000-000000000003';
const CONTROL = '\u0001'.repeat(128);

const states: Record<string, JsonObject> = { [BUSY]: { a: 1, b: 2 }, [QUIET]: { '': 1, level: 3, [CONTROL]: 4 } };

interface HistoryInput {
  id: string;
  property: string;
  from: string;
  to: string;
  step: string;
}

/** One each hour, and none for ten hours. */
const samplesOf = (from: string) =>
  [0, 1, 2, 12].map((hour) => ({ at: new Date(Date.parse(from) + hour * 3_600_000).toISOString(), value: hour }));
const pointOf = (at: string) => ({ at, count: 4, min: 0, max: 12, mean: 3.75, last: 12, states: [] });

/** Two devices, of which the first has more reports than can be read. */
function callWith(args: JsonObject) {
  const reads: HistoryInput[] = [];
  const answers: Record<string, (input: never) => unknown> = {
    getHome: () => ({}),
    listDevices: () => ({ devices: [{ id: BUSY }, { id: QUIET }], next_cursor: null }),
    getDevice: ({ id }: { id: string }) => ({ device: { id, name: 'Sensor', state: states[id] } }),
    getManifest: () => ({ capabilities: [], properties: { level: { unit: 'cm' }, valve: { history: 'change' } } }),
    getDeviceHistory: (input: HistoryInput) => {
      reads.push(input);
      const { id, property, from, to, step } = input;
      const given = { device_id: id, property, from, to, step, samples: samplesOf(from), next_from: null };
      return { history: { ...given, points: step === 'raw' ? null : [pointOf(from)] } };
    },
  };
  const perform = async ({ name }: { name: string }, { input }: { input: { id?: string } }) =>
    name === 'getDeviceHistory' && input.id === BUSY
      ? refuse('OVERLOADED', 'Retry.')
      : done({ status: 200, body: answers[name]?.(input as never), cursors: () => ['before', 'after'] });
  const call = {
    ...{ args, perform, services: { clock: testClock(NOW) }, client: {} },
    caller: { user: {}, tenantId: HOME, role: 'owner', scopes: null },
  } as unknown as McpToolCall;
  return { call, reads };
}

async function callTool(name: string, args: JsonObject) {
  const { call, reads } = callWith(args);
  const result = await historyTools.find((tool) => tool.name === name)?.call(call);
  return { result, reads, body: result?.structuredContent as Record<string, never> };
}

describe('get_home_history', () => {
  it('continues after a page whose properties cannot be read', async () => {
    const first = await callTool('get_home_history', { home_id: HOME, limit: 2 });
    expect(first.result?.isError).toBeUndefined();
    expect(first.body).toMatchObject({
      series: [],
      left_out: [{ property: 'a', code: 'OVERLOADED' }, { property: 'b' }],
    });
    const { body } = await callTool('get_home_history', { home_id: HOME, cursor: first.body.next_cursor ?? null });
    expect(body).toMatchObject({ series: [{ device_id: QUIET }, { property: 'level' }], next_cursor: null });
  });

  it('is refused if no property can be read and none is left', async () => {
    const { result } = await callTool('get_home_history', { home_id: HOME, property: 'a' });
    expect([result?.isError, result?._meta?.['twinkeep/refusal']]).toMatchObject([true, { code: 'OVERLOADED' }]);
  });
});

describe('get_device_history', () => {
  it('continues after the longest name, and leaves out the empty one', async () => {
    const first = await callTool('get_device_history', { device_id: QUIET, limit: 1 });
    expect(first.reads.map(({ property }) => property)).toContain(CONTROL);
    const { next_cursor } = first.body;
    const rest = await callTool('get_device_history', { device_id: QUIET, limit: 1, cursor: next_cursor ?? null });
    expect(rest.body).toMatchObject({ series: [{ property: 'level', unit: 'cm' }], next_cursor: null });
  });

  it('chooses the intervals for a range that ends now, if it is requested until later', async () => {
    const later = { to: '9999-12-31T23:59:59Z' };
    const { body } = await callTool('get_device_history', { device_id: QUIET, property: 'level', ...later });
    expect(body).toMatchObject({ from: '2026-02-28T12:00:00.000Z', to: '2026-03-01T12:30:00.000Z', step: '30m' });
  });

  it('names gaps of what is measured, and none of a number that lasts', async () => {
    const gapsOf = async (property: string) => {
      const { body } = await callTool('get_device_history', { device_id: QUIET, property });
      const [series] = body.series as unknown as [{ gaps: unknown[] }];
      return series.gaps.length;
    };
    expect([await gapsOf('level'), await gapsOf('valve')]).toEqual([1, 0]);
  });
});

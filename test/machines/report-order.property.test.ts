import { describe, expect, it } from 'vitest';
import { applyReport, EMPTY_TWIN, type Twin } from '../../src/domain/twin.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { fc, runs } from '../support/properties.ts';
import { slow } from '../support/slow.ts';
import { registered, report } from './samples.ts';

interface Report {
  state: JsonObject;
  full: boolean;
}

const name = fc.constantFrom('on', 'level', 'mode', 'battery');
const value = fc.integer({ min: 0, max: 3 });
const partial = fc.dictionary(name, fc.option(value, { freq: 4 }), { maxKeys: 3, noNullPrototype: true });
const complete = fc.dictionary(name, value, { noNullPrototype: true });
const reports = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ state: partial, full: fc.constant(false) }) },
    { weight: 1, arbitrary: fc.record({ state: complete, full: fc.constant(true) }) },
  ),
  { minLength: 2, maxLength: 9 },
);
/** The reports, and the order in which they arrive. */
const delivery = reports.chain((sent) =>
  fc.tuple(
    fc.constant<Report[]>(sent),
    fc.shuffledSubarray([...sent.keys()], { minLength: sent.length, maxLength: sent.length }),
  ),
);

function inOrder(sent: readonly Report[]): JsonObject {
  let twin: Twin = EMPTY_TWIN;
  for (const { state, full } of sent) {
    const result = applyReport(twin, state, full);
    if (!result.ok) throw new Error(result.code);
    twin = result.twin;
  }
  return twin.state;
}

describe('reports of a device that arrive in any order', () => {
  it('result in the state of the reports in the order of their numbers', slow, () => {
    fc.assert(
      fc.property(delivery, ([sent, arrival]) => {
        const device = registered();
        for (const index of arrival) {
          const { state, full } = sent[index] as Report;
          device.send(report(index + 1, state, { full }));
        }
        expect(device.context.live.state).toEqual(inOrder(sent));
        expect(device.context.live.stateVersion).toBe(sent.length);
        // All sequence numbers are used, so no message can arrive late.
        expect(device.context.live.reported.order).toBeNull();
      }),
      runs(1_000),
    );
  });
});

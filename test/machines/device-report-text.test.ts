import { describe, expect, it } from 'vitest';
import type { JsonSpan } from '../../src/domain/json/span.ts';
import { parseJson } from '../../src/domain/json/strict.ts';
import { MAX_STATE_BYTES } from '../../src/domain/twin.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { canonicalPayload } from '../../src/protocol/canonical.ts';
import { type StatePayload, stateSpan } from '../../src/protocol/payloads.ts';
import { spanText } from '../support/json-span.ts';
import { expectReached, fc, runs } from '../support/properties.ts';
import { ofType, registered, report } from './samples.ts';

/** A received payload: its value, and the bytes of its state if they are known to be canonical. */
function arriving(state: JsonObject, full: boolean): { state: JsonObject; written: JsonSpan | undefined } {
  const text = canonicalPayload(full ? { full, state } : { state });
  const read = parseJson(Buffer.from(`{"before":"é","payload":${text},"version":1}`), { canonical: 'payload' });
  if (!read.ok) throw new Error(read.reason);
  const { payload } = read.value as unknown as { payload: StatePayload };
  return { state: payload.state, written: read.canonical && stateSpan(payload, read.canonical) };
}

const names = fc.constantFrom('a', 'b', 'on', 'level', '10', '9', 'é', '__proto__', 'toString');
const { state } = fc.letrec<{ value: Json; state: JsonObject }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<Json[]>(null, true, 1, 2.5, -3, 'v', 'Küche', '"', 1e21, 0.1),
    tie('state'),
    fc.array(tie('value'), { maxLength: 2 }),
  ) as fc.Arbitrary<Json>,
  state: fc
    .array(fc.tuple(names, tie('value')), { maxLength: 4 })
    .map((entries) => Object.fromEntries(entries) as JsonObject) as fc.Arbitrary<JsonObject>,
}));
const reports = fc.record({
  state,
  /** Also repeats the complete known state. */
  covers: fc.boolean(),
  full: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
});

describe('the text of a report', () => {
  it('does not change the result, and if it is passed on it is the text of the state', () => {
    let texts = 0;
    let none = 0;
    fc.assert(
      fc.property(fc.array(reports, { maxLength: 5 }), (reports) => {
        const quick = registered();
        const slow = registered();
        for (const [n, { state, covers, full }] of reports.entries()) {
          const all = covers
            ? Object.fromEntries([...Object.entries(quick.context.live.state), ...Object.entries(state)])
            : state;
          const { written, ...came } = arriving(all, full);
          const step = quick.send(report(n + 1, came.state, { full, written }));
          const plain = slow.send(report(n + 1, structuredClone(came.state), { full }));
          const [output] = ofType(step.outputs, 'device.state');
          const { written: text, reportText, ...rest } = output as typeof output & object;
          expect(rest).toEqual(ofType(plain.outputs, 'device.state')[0]);
          expect(reportText && JSON.parse(spanText(reportText))).toEqual(written && came.state);
          expect(quick.context).toEqual(slow.context);
          expect(quick.context.live.reported.bytes).toBe(Buffer.byteLength(JSON.stringify(quick.context.live.state)));
          if (text === undefined) none += 1;
          else {
            expect(JSON.parse(spanText(text))).toEqual(quick.context.live.state);
            texts += 1;
          }
        }
      }),
      runs(80),
    );
    expectReached(() => {
      expect(texts).toBeGreaterThan(20);
      expect(none).toBeGreaterThan(20);
    });
  });

  it.each([
    ['covers what is known', { on: false, level: 2 }, false],
    ['changes nothing', { on: true, level: 1 }, false],
    ['knows more', { on: true, level: 1, name: 'x' }, false],
    ['replaces it', { name: null }, true],
  ])('is passed on if the report %s', (_, state, full) => {
    const driven = registered();
    driven.send(report(1, { on: true, level: 1 }));
    const came = arriving(state, full);
    const step = driven.send(report(2, came.state, { full, written: came.written }));
    const [output] = ofType(step.outputs, 'device.state');
    expect(output?.written).toBe(came.written);
    expect(came.written && spanText(came.written)).toBe(canonicalPayload(state));
  });

  it.each([
    ['leaves something alone', { on: false }],
    ['takes something away', { on: false, level: null }],
  ])('is not passed on if it %s', (_, state) => {
    const driven = registered();
    driven.send(report(1, { on: true, level: 1 }));
    const { written } = arriving(state, false);
    const step = driven.send(report(2, state, { written }));
    expect(written).toBeDefined();
    expect(ofType(step.outputs, 'device.state')[0]?.written).toBeUndefined();
  });

  it('is not stored', () => {
    const driven = registered();
    const { state, written } = arriving({ on: true }, true);
    driven.send(report(1, state, { full: true, written }));
    expect(driven.context).not.toHaveProperty('written');
    expect(Object.values(driven.context).some((member) => (member as unknown) === written)).toBe(false);
  });

  it('has the same limit as the state', () => {
    const { state, written } = arriving({ text: 'é'.repeat(MAX_STATE_BYTES / 2) }, true);
    const step = registered().send(report(1, state, { full: true, written }));
    expect(step.outputs).toContainEqual({ type: 'message.refused', code: 'STATE_TOO_LARGE' });
  });
});

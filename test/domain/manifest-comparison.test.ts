import { describe, expect, it } from 'vitest';
import { automaticManifest } from '../../src/domain/capability-registry.ts';
import type { Capability, Manifest } from '../../src/domain/manifest.ts';
import { compareManifests, MAX_REMOVED } from '../../src/domain/manifest-comparison.ts';
import { readManifest } from '../../src/domain/tenant-manifest.ts';

const actions = (...capabilities: object[]): Capability[] => {
  const read = readManifest({ capabilities });
  if (!read.ok) throw new Error(JSON.stringify(read.refusal));
  return read.value;
};
const gate = (more: object = {}) => ({ action: 'open_gate', safetyClass: 'CRITICAL', ...more });
const percent = (maximum: number) => ({
  paramSchema: { type: 'object', properties: { percent: { type: 'integer', minimum: 0, maximum } } },
});

const opens = (open: boolean) => ({ expectedState: { open } });

/** Publishes these manifests one after another; the sentences of the last one. */
function weaker(...manifests: object[][]): string[] {
  let current: Pick<Manifest, 'capabilities' | 'removed'> | null = null;
  let found: string[] = [];
  for (const manifest of manifests) {
    const capabilities = actions(...manifest);
    const comparison = compareManifests(current, capabilities);
    current = { capabilities, removed: comparison.removed };
    found = comparison.weaker;
  }
  return found;
}

describe('a manifest gets weaker', () => {
  it('with a lower class', () => {
    expect(weaker([gate()], [{ action: 'open_gate' }])).toEqual([
      "'open_gate' will need no confirmation: it is CRITICAL now, and becomes NORMAL.",
    ]);
    expect(weaker([gate({ safetyClass: 'RESTRICTED' })], [gate()])).toEqual([
      "'open_gate' can be requested, with a confirmation: it is RESTRICTED now, and becomes CRITICAL.",
    ]);
  });

  it('when a parameter of an action of any class is no longer writeOnly, also through removing the action', () => {
    const code = (action: string, writeOnly: boolean, more: object = {}) => {
      const paramSchema = { type: 'object', properties: { pin: { type: 'string', writeOnly } } };
      return { action, paramSchema, ...more };
    };
    const sentence = "'set_code' no longer marks 'pin' as writeOnly: commands will store and show the values.";
    expect(weaker([code('set_code', true)], [code('set_code', false)])).toEqual([sentence]);
    expect(weaker([code('set_code', true)], [{ action: 'set_code' }])).toEqual([sentence]);
    expect(weaker([code('set_code', true)], [], [{ action: 'wave' }], [code('set_code', false)])).toEqual([sentence]);
    expect(weaker([code('set_code', true)], [code('Set-Code', false), code('set_code', true)])).toHaveLength(1);
    const critical = { safetyClass: 'CRITICAL' };
    expect(weaker([code('set_code', true, critical)], [code('set_code', false, critical)])).toEqual([sentence]);
    expect(weaker([code('set_code', false)], [code('set_code', true)])).toEqual([]);
    expect(weaker([code('set_code', true)], [code('set_code', true)])).toEqual([]);
    const schema = (writeOnly: boolean) => ({ type: 'object', properties: { pin: { type: 'string', writeOnly } } });
    expect(
      compareManifests({ capabilities: actions(code('set_code', true)) }, actions(code('set_code', false))),
    ).toMatchObject({
      changes: { 'set_code.paramSchema': { from: schema(true), to: schema(false) } },
    });
  });

  it('when an action is added again whose marks are no longer remembered', () => {
    const marked = { type: 'object', properties: { pin: { type: 'string', writeOnly: true } } };
    const large = (n: number) => ({
      ...{ action: `large_${n}`, safetyClass: 'CRITICAL' },
      paramSchema: { type: 'object', description: 'x'.repeat(14 * 1024) },
    });
    const five = [1, 2, 3, 4, 5].map(large);
    const steps = [[{ action: 'set_code', paramSchema: marked }, ...five], five, [{ action: 'wave' }]];
    const again = (action: string) => [{ action, paramSchema: { ...marked, properties: { pin: {} } } }];
    expect(weaker(...steps, again('set_code'))).toEqual([
      "'set_code' was removed, and its earlier parameters are no longer known. They may have been writeOnly: commands will store and show the values of those that are not marked.",
    ]);
    expect(weaker(...steps, again('Set-Code'))).toHaveLength(1);
    expect(weaker(...steps, again('set_code'), again('set_code'))).toEqual([]);
    expect(weaker(...steps, again('Set-Code'), again('Set-Code'))).toEqual([]);
  });

  it('with a critical action that was removed and is added again below its class', () => {
    expect(weaker([gate()], [{ action: 'wave' }], [{ action: 'open_gate' }])).toEqual([
      "'open_gate' will need no confirmation: it was CRITICAL when it was removed, and becomes NORMAL.",
    ]);
    expect(weaker([gate()], [], [], [{ action: 'wave' }], [{ action: 'open_gate' }, { action: 'wave' }])).toHaveLength(
      1,
    );
  });

  it.each(['Open_Gate', 'open-gate', 'openGate', 'OPEN.GATE'])('with another spelling, %s', (action) => {
    expect(weaker([gate()], [{ action }])).toEqual([
      `'${action}' will need no confirmation: it is a spelling of 'open_gate', which is CRITICAL, and becomes NORMAL.`,
    ]);
    expect(weaker([gate()], [gate(), { action }])).toHaveLength(1);
    expect(weaker([gate()], [], [{ action }])[0]).toContain('which was CRITICAL when it was removed');
    expect(weaker([], [gate(), { action }])).toHaveLength(1);
    expect(weaker([gate(percent(50))], [gate({ action, ...percent(60) })])).toHaveLength(1);
  });

  it('with wider parameters of a critical action, also of one that was removed', () => {
    const sentence =
      "'open_gate' is CRITICAL and accepts more parameters. Parameter 'percent' may be at most 100 (before: at most 50).";
    expect(weaker([gate(percent(50))], [gate(percent(100))])).toEqual([sentence]);
    expect(weaker([gate(percent(50))], [], [gate(percent(100))])).toEqual([sentence]);
  });

  const OTHER = "'open_gate' is CRITICAL and is previewed and verified with another expected state.";
  const NO_PREVIEW = "'open_gate' is CRITICAL and its confirmation will no longer show what it changes.";
  const PREVIEW = "'open_gate' is CRITICAL and its confirmation will show the expected state, which it does not now.";

  it.each<[string, object, object, string[]]>([
    ['another expected state', opens(true), opens(false), [OTHER]],
    ['no expected state', opens(true), {}, [OTHER, NO_PREVIEW]],
    ['an expected state where there was none', {}, opens(false), [OTHER, PREVIEW]],
    ['no preview', opens(true), { ...opens(true), supportsDryRun: false }, [NO_PREVIEW]],
    ['a preview where there was none', { ...opens(true), supportsDryRun: false }, opens(true), [PREVIEW]],
  ])('with %s of a critical action, also of one that was removed or has another spelling', (_, from, to, sentences) => {
    expect(weaker([gate(from)], [gate(to)])).toEqual(sentences);
    expect(weaker([gate(from)], [{ action: 'wave' }], [gate(to)])).toEqual(sentences);
    const respelled = sentences.map((one) => one.replace('open_gate', 'openGate'));
    expect(weaker([gate(from)], [gate({ ...to, action: 'openGate' })])).toEqual(respelled);
    expect(weaker([gate(from)], [], [gate({ ...to, action: 'openGate' })])).toEqual(respelled);
  });

  it('with both forms of the members that change', () => {
    const { changes } = compareManifests({ capabilities: actions(gate(opens(true))) }, actions(gate()));
    expect(changes).toEqual({
      'open_gate.expectedState': { from: { open: true }, to: null },
      'open_gate.supportsDryRun': { from: true, to: false },
    });
  });

  it('with another expected state than that of the automatic manifest, or without it', () => {
    const before = automaticManifest({ deviceId: 'd', tenantId: 't', deviceType: 'door_lock' });
    const found = (more: object) => compareManifests(before, actions({ action: 'unlock', ...more })).weaker;
    expect(found({ expectedState: { locked: true } })).toEqual([OTHER.replace('open_gate', 'unlock')]);
    expect(found({ expectedState: { locked: false } })).toEqual([]);
    expect(found({})).toContain(OTHER.replace('open_gate', 'unlock'));
    const { removed } = compareManifests(before, []);
    const again = compareManifests({ capabilities: [], removed }, actions({ action: 'unlock' }));
    expect(again.weaker[0]).toBe(OTHER.replace('open_gate', 'unlock'));
  });

  it('with a lower class and new parameters before any number of higher limits', () => {
    const limits = (maximum: number) =>
      Array.from({ length: 30 }, (_, n) => gate({ action: `a${n}`, ...percent(maximum) }));
    const parameters = (...names: string[]) => ({
      paramSchema: { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'boolean' }])) },
    });
    const last = (name: string, more: object) => gate({ action: name, ...more });
    const found = weaker(
      [...limits(50), last('y', parameters('soft')), last('z', {})],
      [...limits(60), last('y', parameters('soft', 'force')), { action: 'z' }],
    );
    expect(found.slice(0, 2)).toEqual([
      "'z' will need no confirmation: it is CRITICAL now, and becomes NORMAL.",
      "'y' is CRITICAL and accepts more parameters. Parameter 'force' is a new parameter.",
    ]);
    expect(found).toHaveLength(32);
  });

  it('compared with the automatic manifest too', () => {
    const before = automaticManifest({ deviceId: 'd', tenantId: 't', deviceType: 'valve' });
    const comparison = compareManifests(
      before,
      actions({ action: 'open_valve', paramSchema: { type: 'object', properties: { percent: {}, force: {} } } }),
    );
    expect(comparison.weaker[0]).toContain("'open_valve' is CRITICAL and accepts more parameters.");
    expect(comparison.removed.map(({ action }) => action)).not.toContain('revoke');
  });
});

describe('a manifest with many spellings of critical actions', () => {
  /** Distinct spellings of `opengate`: each bit of `n` is an underscore between two letters. */
  const spelling = (n: number) => [...'opengate'].map((letter, at) => (n & (1 << at) ? `${letter}_` : letter)).join('');
  const large = (title: string) => ({
    paramSchema: {
      ...{ type: 'object', title },
      properties: Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`p${n}`, { type: 'boolean' }])),
    },
  });
  const spelled = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => gate({ action: spelling(from + n), ...large(`${from + n}`) }));

  it('is compared as a whole with a bound, beyond which its parameters count as wider', () => {
    const before = { capabilities: [], removed: actions(...spelled(0, 60)) };
    const found = compareManifests(before, actions(...spelled(64, 72))).weaker;
    expect(found.at(-1)).toContain('The parameters are too complex to be compared.');
    expect(found.length).toBeLessThan(8);
  });

  it('compares equal schemas once', () => {
    const same = spelled(0, 60).map((one) => ({ ...one, ...large('same') }));
    const after = spelled(64, 72).map((one) => ({ ...one, ...large('other') }));
    expect(compareManifests({ capabilities: [], removed: actions(...same) }, actions(...after)).weaker).toEqual([]);
  });
});

describe('a manifest does not get weaker', () => {
  it.each<[string, object[][]]>([
    ['as the first one', [[gate(), { action: 'wave' }]]],
    ['unchanged', [[gate(percent(50))], [gate(percent(50))]]],
    ['with a raised class', [[{ action: 'open_gate', ...percent(50) }], [gate(percent(100))]]],
    ['with narrower parameters', [[gate(percent(50))], [gate(percent(40))]]],
    ['without a critical action', [[gate()], []]],
    ['with a removed action of the same class again', [[gate(percent(50))], [], [gate(percent(50))]]],
    [
      'with wider parameters of a NORMAL action',
      [[{ action: 'wave', ...percent(50) }], [{ action: 'wave', ...percent(90) }]],
    ],
    ['with the same expected state', [[gate(opens(true))], [gate(opens(true))], [], [gate(opens(true))]]],
    ['with another expected state of a NORMAL action', [[{ action: 'wave', ...opens(true) }], [{ action: 'wave' }]]],
    ['with other texts', [[gate({ description: 'a' })], [gate({ description: 'b', verify_within_s: 5 })]]],
    [
      'with a class that a confirmed change had lowered',
      [[gate()], [{ action: 'open_gate' }], [{ action: 'open_gate' }]],
    ],
  ])('%s', (_, manifests) => {
    expect(weaker(...manifests)).toEqual([]);
  });
});

describe('removed actions', () => {
  it('are remembered until the manifest has them again', () => {
    const first = compareManifests({ capabilities: actions(gate(percent(50)), { action: 'wave' }) }, []);
    expect(first.removed).toEqual([
      { action: 'open_gate', safetyClass: 'CRITICAL', paramSchema: percent(50).paramSchema, supportsDryRun: false },
    ]);
    const shown = compareManifests({ capabilities: actions(gate(opens(true))) }, []);
    expect(shown.removed).toMatchObject([{ supportsDryRun: true, expectedState: { open: true } }]);
    expect(compareManifests({ capabilities: [], removed: first.removed }, actions(gate())).removed).toEqual([]);
  });

  it('lose the schemas of the oldest beyond 64 KiB, and then every schema is wider', () => {
    const large = (n: number) =>
      gate({ action: `a${n}`, paramSchema: { type: 'object', properties: { x: { enum: ['y'.repeat(15_000)] } } } });
    const before = { capabilities: actions(...[1, 2, 3, 4, 5, 6].map(large)) };
    const { removed } = compareManifests(before, []);
    expect(removed.map(({ paramSchema }) => paramSchema === null)).toEqual([true, true, false, false, false, false]);
    const again = compareManifests({ capabilities: [], removed }, actions(large(1), large(6)));
    expect(again.weaker).toEqual([
      "'a1' is CRITICAL and accepts more parameters. Its earlier parameters and expected state are no longer known.",
    ]);
  });

  it('are more than are remembered only after several changes of full manifests', () => {
    const many = (prefix: string) =>
      actions(...Array.from({ length: 100 }, (_, n) => gate({ action: `${prefix}${n}` })));
    let removed: Manifest['removed'] = [];
    for (const prefix of ['a', 'b', 'c'])
      removed = compareManifests({ capabilities: many(prefix), removed }, []).removed;
    expect(removed.length).toBeGreaterThan(MAX_REMOVED);
  });
});

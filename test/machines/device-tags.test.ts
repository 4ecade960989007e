import { describe, expect, it } from 'vitest';
import { deviceDefinition } from '../../src/machines/device-record.ts';
import type { DeviceEvent } from '../../src/machines/device-types.ts';
import { blankDevice, DEVICE, HOUR, other, register, registered, T0, typesOf } from './samples.ts';

type Patch = Extract<DeviceEvent, { type: 'patch' }>;
const patch = (tags: NonNullable<Patch['tags']>, changes: Patch['changes'] = {}): Patch => ({
  ...{ type: 'patch', at: T0 + HOUR, by: other, changes, tags },
});
const add = (...tags: string[]) => patch({ add: tags, remove: [] });
const remove = (...tags: string[]) => patch({ add: [], remove: tags });
const indexed = (added: string[], removed: string[]) => ({
  ...{ type: 'tags.change', deviceId: DEVICE, deviceCreatedAt: T0, added, removed },
});
const many = (count: number) => Array.from({ length: count }, (_, n) => `t${String(n).padStart(2, '0')}`);

const tagged = (...tags: string[]) => {
  const driven = registered();
  driven.send(add(...tags));
  return driven;
};

describe('the tags of a device', () => {
  it('are given at its registration, with their index in the same commit', () => {
    const driven = blankDevice();
    const { device, ...rest } = register();
    const { outputs } = driven.send({ ...rest, device: { ...device, tags: ['a', 'b'] } });
    expect(typesOf(outputs)).toEqual(['key.put', 'manifest.put', 'tags.change']);
    expect(outputs.at(-1)).toEqual(indexed(['a', 'b'], []));
    expect(driven.context.fixed.tags).toEqual(['a', 'b']);
  });

  it('are absent from the stored form until there are some', () => {
    const stored = (driven: ReturnType<typeof registered>) => deviceDefinition.toStored(driven.context).fixed;
    expect(stored(registered())).not.toHaveProperty('tags');
    expect(stored(tagged('a'))).toHaveProperty('tags', ['a']);
    const { fixed, live } = deviceDefinition.toStored(tagged('a').context);
    expect(deviceDefinition.fromStored({ ...fixed, ...live }).fixed.tags).toEqual(['a']);
  });

  it('are added, removed and replaced; the index gets the difference', () => {
    const driven = tagged('b', 'a');
    expect(driven.context.fixed.tags).toEqual(['a', 'b']);
    expect(driven.send(patch({ add: ['c', 'a'], remove: ['b', 'x'] })).outputs).toEqual([indexed(['c'], ['b'])]);
    expect(driven.context.fixed.tags).toEqual(['a', 'c']);
    expect(driven.send(patch({ set: ['z', 'c'] })).outputs).toEqual([indexed(['z'], ['a'])]);
    expect(driven.send(patch({ set: [] })).outputs).toEqual([indexed([], ['c', 'z'])]);
    expect(driven.context.fixed.tags).toEqual([]);
  });

  it('change nothing if they are as requested', () => {
    const driven = tagged('a');
    const before = driven.context.fixed;
    for (const event of [add('a'), remove('b'), patch({ set: ['a'] })]) expect(driven.send(event).outputs).toEqual([]);
    expect(driven.context.fixed).toEqual(before);
  });

  it('are at most 16: a change beyond is refused with everything else of its patch', () => {
    const driven = tagged(...many(16));
    const before = driven.context;
    const { outputs } = driven.send(patch({ add: ['more'], remove: [] }, { name: 'Lamp' }));
    expect(outputs).toEqual([
      {
        ...{ type: 'refused' },
        refusal: { code: 'VALIDATION_FAILED', detail: 'The device would have 17 tags; it can have 16.' },
      },
    ]);
    expect(driven.context).toBe(before);
    expect(driven.send(patch({ add: ['more'], remove: ['t00'] })).outputs).toEqual([indexed(['more'], ['t00'])]);
  });

  it('stay at a revocation, can be changed after it, and leave the index at the deletion', () => {
    const driven = tagged('a');
    driven.send({ type: 'revoke', at: T0 + HOUR, by: other });
    expect(driven.context.fixed.tags).toEqual(['a']);
    expect(driven.send(add('lost')).outputs).toEqual([indexed(['lost'], [])]);
    expect(driven.send({ type: 'delete', at: T0 + HOUR, by: other }).outputs).toEqual([indexed([], ['a', 'lost'])]);
  });

  it('are shown to administrators, with each change in the journal', () => {
    const before = registered().asSnapshot();
    const after = tagged('b', 'a').asSnapshot();
    expect(deviceDefinition.toAdminView(before.context).tags).toEqual([]);
    expect(deviceDefinition.toAdminView(after.context).tags).toEqual(['a', 'b']);
    expect(deviceDefinition.journal(add('b', 'a'), before, after)).toEqual({ data: { tags: ['a', 'b'] } });
  });
});

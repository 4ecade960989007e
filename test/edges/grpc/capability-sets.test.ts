import { describe, expect, it } from 'vitest';
import { SafetyClass } from '#proto/cognition/v1/runtime_pb.js';
import { categoryNames } from '../../../src/domain/capability-registry.ts';
import type { Capability } from '../../../src/domain/manifest.ts';
import {
  capabilitySetOf,
  functionName,
  registryCapabilitySets,
  toolDefinitionOf,
} from '../../../src/edges/grpc/capability-sets.ts';

const capability = (given: Partial<Capability> = {}): Capability => ({
  ...{ id: 1, action: 'turn_on', description: 'Turns it on', safetyClass: 'NORMAL', supportsDryRun: true },
  paramSchema: { type: 'object', properties: {}, additionalProperties: false },
  ...given,
});

describe('tools for a language model', () => {
  it.each([
    ['turn_on', 'turn_on'],
    ['set-mode', 'set-mode'],
    ['x'.repeat(64), 'x'.repeat(64)],
  ])('%s keeps its name', (action, name) => {
    expect(functionName(action)).toBe(name);
  });

  it('names that OpenAI would not accept are replaced by unique ones', () => {
    const names = ['lamp.on', 'lamp:on', 'lamp_on', `${'y'.repeat(63)}.`, `${'y'.repeat(62)}..`].map(functionName);
    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    expect(new Set(names).size).toBe(names.length);
    expect(functionName('lamp.on')).toMatch(/^lamp_on_[0-9a-f]{8}$/);
  });

  it('accept the device and the parameters of the action, which are required if one of them is', () => {
    const plain = toolDefinitionOf(capability());
    expect(plain).toEqual({
      type: 'function',
      function: {
        name: 'turn_on',
        description: 'Turns it on',
        parameters: {
          type: 'object',
          properties: {
            device_id: { type: 'string', description: 'The id of the device' },
            params: { type: 'object', properties: {}, additionalProperties: false },
          },
          required: ['device_id'],
          additionalProperties: false,
        },
      },
    });
    const paramSchema = { type: 'object', properties: { level: { type: 'integer' } }, required: ['level'] };
    expect(toolDefinitionOf(capability({ paramSchema }))).toMatchObject({
      function: { parameters: { required: ['device_id', 'params'], properties: { params: paramSchema } } },
    });
  });

  it('of all categories contain no internal action, and mark critical ones', () => {
    const sets = registryCapabilitySets();
    expect(sets.map(({ category }) => category)).toEqual(categoryNames);
    const lock = sets.find(({ category }) => category === 'lock');
    const classOf = (action: string) => lock?.tools.find((tool) => tool.action === action)?.safetyClass;
    expect([classOf('lock'), classOf('unlock')]).toEqual([SafetyClass.NORMAL, SafetyClass.CRITICAL]);
    for (const { tools } of sets) {
      expect(tools.map(({ action }) => action)).not.toEqual(
        expect.arrayContaining([expect.stringMatching(/^(revoke|rotate_key)$/)]),
      );
    }
    expect(new Set(sets.map(({ capabilitySetId }) => capabilitySetId)).size).toBe(sets.length);
  });

  it('equal manifests have the same id, and different ones different ids', () => {
    const idOf = (...capabilities: Capability[]) =>
      capabilitySetOf({ category: 'light', capabilities }).capabilitySetId;
    expect(idOf(capability())).toBe(idOf(capability()));
    expect(idOf(capability())).not.toBe(idOf(capability({ description: 'Lights up' })));
    expect(idOf(capability())).not.toBe(idOf(capability({ expectedState: { on: true } })));
    expect(idOf(capability())).toMatch(/^[0-9a-f]{64}$/);
  });
});

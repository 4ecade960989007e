import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../../src/domain/values.ts';
import { stepSchema } from '../../../src/operations/plans/plan-input.ts';
import { invalidMembers } from '../../endpoints/invalid-inputs.ts';
import { expectRefusal, turnOn, unwrap } from '../../support/cognition-fixture.ts';
import { expectOwnText, schemaTexts } from '../../support/error-texts.ts';
import { cognition, withCognition, world } from './cognition-requests.ts';

withCognition();

// Goals and observations accept the same messages.
const openings = [
  ['a goal', () => world.submitGoal('Light, please.', { home_id: world.tenant.homeId })],
  ['an observation', async () => world.observe(await world.addLight())],
] as const;

describe.each(openings)('a node for %s', (_, open) => {
  it('sent twice is stored once; another node with its id is refused', async () => {
    const [id, device] = [await open(), await world.addLight()];
    expect(unwrap(await cognition.propose(id, turnOn('a', device)))).toEqual({ repeat: false });
    expect(unwrap(await cognition.propose(id, turnOn('a', device)))).toEqual({ repeat: true });
    expectRefusal(await cognition.propose(id, { ...turnOn('a', device), action: 'turn_off' }), 'VALIDATION_FAILED');
    expectRefusal(await cognition.propose(id, turnOn('b', device, { depends_on: ['z'] })), 'VALIDATION_FAILED');
    expect((await cognition.context(id))?.nodes.map((node) => node.id)).toEqual(['a']);
  });

  it('that names a device of another tenant or of another home is refused as not found', async () => {
    const { body: cabin } = await world.tenant.call('POST', '/homes', { home_name: 'Cabin' });
    const elsewhere = (await world.tenant.register({ home_id: cabin.id })).device_id;
    const id = await open();
    for (const device of [await world.addLight(world.otherTenant), elsewhere, v7()]) {
      const refused = await cognition.propose(id, turnOn('a', device));
      expect(refused).toMatchObject({ refusal: { code: 'NOT_FOUND', detail: 'Device not found.' } });
    }
  });

  it('that the gateway would refuse is refused with its code, without other effects', async () => {
    const [id, device] = [await open(), await world.addLight()];
    const wrong: [string, object][] = [
      ['ACTION_NOT_IN_MANIFEST', { action: 'open_valve' }],
      ['RESTRICTED_ACTION', { action: 'rotate_key' }],
      ['PARAMS_INVALID', { action: 'set_brightness', params: { level: 1_000 } }],
      ['ACTION_NOT_IN_MANIFEST', { compensation: { action: 'open_valve' } }],
    ];
    for (const [code, more] of wrong) {
      expectRefusal(await cognition.propose(id, turnOn('a', device, more)), code as 'PARAMS_INVALID');
    }
    const { device_id: bare } = await world.tenant.register({ device_type: 'thing' });
    expectRefusal(await cognition.propose(id, turnOn('a', bare)), 'MANIFEST_NOT_FOUND');
    expect(unwrap(await cognition.propose(id, turnOn('a', device)))).toEqual({ repeat: false });
  });

  it('that sets a writeOnly parameter, also of its compensation, is refused; one without the value is not', async () => {
    const { device_id: keypad } = await world.tenant.register({ device_type: 'keypad' });
    const pin = { type: 'string', writeOnly: true };
    const paramSchema = { type: 'object', properties: { pin, slot: { type: 'integer' } } };
    const manifest = { capabilities: [{ action: 'set_code', paramSchema }] };
    expect(await world.tenant.call('POST', `/devices/${keypad}/manifest`, manifest)).toMatchObject({ status: 201 });
    const id = await open();
    const undo = (params: object) => ({ compensation: { action: 'set_code', params } });
    const step = (params: object, undone = {}) => turnOn('a', keypad, { action: 'set_code', params, ...undo(undone) });
    for (const given of ['7391', { write_only: true }]) {
      for (const node of [step({ pin: given }), step({}, { pin: given })]) {
        expectRefusal(await cognition.propose(id, node), 'PARAMS_INVALID');
      }
    }
    expect(unwrap(await cognition.propose(id, step({ slot: 1 })))).toEqual({ repeat: false });
  });

  const deep = (levels: number): Json => (levels === 0 ? 1 : [deep(levels - 1)]);
  it.each<[string, (device: string) => Json]>([
    ['nothing', () => null],
    ['a text', () => 'turn it on'],
    ['an unknown member', (device) => ({ ...turnOn('a', device), confirmed: true })],
    ['an id with a control character', (device) => turnOn('a\u0007', device)],
    ['U+0000', (device) => turnOn('a', device, { action: 'set_scene', params: { name: '\u0000' } })],
    ['a lone surrogate', (device) => turnOn('a', device, { action: 'set_scene', params: { name: '\ud800' } })],
    ['40 levels', (device) => turnOn('a', device, { params: { deep: deep(40) } })],
    ['too much', (device) => turnOn('a', device, { params: { name: 'x'.repeat(40_000) } })],
  ])('that contains %s is refused', async (_name, node) => {
    const id = await open();
    expectRefusal(await cognition.propose(id, node(await world.addLight())), 'VALIDATION_FAILED');
    expect((await cognition.context(id))?.nodes).toEqual([]);
  });

  it('with a wrong field is refused in a text of the service', async () => {
    const [id, device] = [await open(), await world.addLight()];
    for (const { values } of invalidMembers(stepSchema)) {
      for (const [name, all] of values) {
        for (const value of all) {
          const node = { ...turnOn('a', device), [name]: value };
          const refused = await cognition.propose(id, node);
          if (refused.ok) throw new Error(`${JSON.stringify(node)} was accepted`);
          const texts = new Set(schemaTexts(stepSchema, node));
          expectOwnText(refused.refusal.detail.replace(/^\w[\w.]*: /, ''), texts);
        }
      }
    }
  });

  it('after the end is refused, and changes nothing', async () => {
    const [id, device] = [await open(), await world.addLight()];
    unwrap(await cognition.complete(id, { summary: 'Nothing to do.' }));
    for (const late of [
      await cognition.propose(id, turnOn('a', device)),
      await cognition.suspend(id, { reason: '' }),
      await cognition.complete(id, { summary: 'Again.' }),
      await cognition.fail(id, { code: 'LATE', detail: '' }),
    ]) {
      expectRefusal(late, 'CONFLICT');
    }
  });

  it('is refused above the limit of a hundred', async () => {
    const [id, device] = [await open(), await world.addLight()];
    const sent = await Promise.all(
      Array.from({ length: 101 }, (_x, n) => cognition.propose(id, turnOn(`s${n}`, device))),
    );
    expect(sent.filter(({ ok }) => ok)).toHaveLength(100);
    expect((await cognition.context(id))?.nodes).toHaveLength(100);
  });
});

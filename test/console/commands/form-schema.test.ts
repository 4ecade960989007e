import { expect, it } from 'vitest';
import { formSchemaOf, givenParams, missingSchemaOf, openSchemaOf } from '../../../console/src/commands/form-schema.ts';
import { formatBrief, formatValue } from '../../../console/src/ui/values.tsx';

it('a writeOnly text has a password field, which the browser does not fill in', () => {
  const schema = { type: 'object', properties: { pin: { type: 'string', writeOnly: true }, name: { type: 'string' } } };
  expect(formSchemaOf(schema, null).ui).toEqual({ pin: { 'ui:widget': 'password', 'ui:autocomplete': 'off' } });
});

it('the placeholder of a writeOnly parameter is shown as text', () => {
  expect(formatValue({ write_only: true })).toBe('not shown');
  expect(formatBrief({ slot: 1, pin: { write_only: true } })).toBe('slot 1, pin not shown');
  expect(formatBrief({ level: 40 }, () => '%')).toBe('40\u00a0%');
  expect(formatValue({ write_only: false })).toBe('write only no');
});

const dimming = {
  type: 'object',
  properties: {
    level: { type: 'integer', minimum: 0, maximum: 100 },
    mode: { type: 'string', enum: ['slow', 'fast'] },
    smooth: { type: 'boolean' },
    pin: { type: 'string', writeOnly: true },
  },
  required: ['level', 'pin'],
};

it('parameters of a button can be left open, except that secret ones are always', () => {
  const open = openSchemaOf(dimming);
  expect(open.required).toBeUndefined();
  expect(Object.keys(open.properties as object)).toEqual(['level', 'mode', 'smooth']);
  // A slider, radio buttons and a checkbox cannot be empty.
  expect(formSchemaOf(open, null, { isOpen: true }).ui).toEqual({
    mode: { 'ui:widget': 'select' },
    smooth: { 'ui:widget': 'select' },
  });
  expect(formSchemaOf(open, null).ui.level).toEqual({ 'ui:widget': 'range' });
});

it('the form of a button has the required parameters that it lacks, and secret ones with them', () => {
  const asked = (given: object) => {
    const schema = missingSchemaOf(dimming, given as never);
    return schema === null ? null : [Object.keys(schema.properties as object), schema.required];
  };
  expect(asked({})).toEqual([
    ['level', 'pin'],
    ['level', 'pin'],
  ]);
  expect(asked({ level: 0 })).toEqual([['pin'], ['pin']]);
  expect(missingSchemaOf({ ...dimming, required: ['level'] }, { level: 3 })).toBeNull();
  expect(missingSchemaOf({ type: 'object', properties: {} }, {})).toBeNull();
});

it('a button does not send what was stored before a manifest marked it, because its value is masked', () => {
  const stored = { level: 0, pin: { write_only: true }, unknown: 1 };
  expect(givenParams(dimming, stored)).toEqual({ level: 0, unknown: 1 });
  expect(missingSchemaOf(dimming, givenParams(dimming, stored))?.required).toEqual(['pin']);
});

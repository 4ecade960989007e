import { expect, it } from 'vitest';
import { formSchemaOf } from '../../../console/src/commands/form-schema.ts';
import { formatBrief, formatValue } from '../../../console/src/ui/values.tsx';

it('a writeOnly text has a password field, which the browser does not fill in', () => {
  const schema = { type: 'object', properties: { pin: { type: 'string', writeOnly: true }, name: { type: 'string' } } };
  expect(formSchemaOf(schema, null).ui).toEqual({ pin: { 'ui:widget': 'password', 'ui:autocomplete': 'off' } });
});

it('the placeholder of a writeOnly parameter is shown as text', () => {
  expect(formatValue({ write_only: true })).toBe('not shown');
  expect(formatBrief({ slot: 1, pin: { write_only: true } })).toBe('1, not shown');
  expect(formatValue({ write_only: false })).toBe('write only no');
});

import { describe, expect, it } from 'vitest';
import { validator } from '../../../console/src/schema/validator.ts';

const schema = {
  type: 'object',
  required: ['level'],
  properties: {
    level: { type: 'integer', minimum: 0, maximum: 100 },
    colour: { type: 'object', properties: { hue: { type: 'number', maximum: 360 } } },
    zones: { type: 'array', items: { type: 'string', maxLength: 3 } },
  },
} as const;

const check = (data: unknown) => validator.validateFormData(data, schema as never);

describe("a form's validator", () => {
  it('finds no fault in values that the service accepts', () => {
    expect(check({ level: 40, colour: { hue: 30 }, zones: ['a'] })).toEqual({ errors: [], errorSchema: {} });
  });

  it('omits fields that the form left undefined', () => {
    expect(check({ level: 40, colour: undefined }).errors).toEqual([]);
  });

  it('puts each error at its field, with the message of the service', () => {
    const { errors, errorSchema } = check({ level: 140, colour: { hue: 400 }, zones: ['abcd'] });
    expect(errors.map(({ property, message }) => [property, message])).toEqual([
      ['.level', 'must be at most 100'],
      ['.colour.hue', 'must be at most 360'],
      ['.zones.0', 'must have at most 3 characters'],
    ]);
    expect(errorSchema).toMatchObject({
      level: { __errors: ['must be at most 100'] },
      colour: { hue: { __errors: ['must be at most 360'] } },
      zones: { 0: { __errors: ['must have at most 3 characters'] } },
    });
  });

  it('reports missing required fields and unknown ones', () => {
    expect(check({ speed: 1 }).errors.map(({ stack }) => stack)).toEqual(['level is required', 'speed unknown field']);
  });

  it('decides whether a part of a form matches its part of the schema', () => {
    expect(validator.isValid({ type: 'integer' } as never, 4 as never, schema as never)).toBe(true);
    expect(validator.isValid({ type: 'integer' } as never, 'four' as never, schema as never)).toBe(false);
  });
});

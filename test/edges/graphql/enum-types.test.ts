import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { Enums } from '../../../src/edges/graphql/enum-types.ts';
import { type Shape, shapeOf } from '../../../src/edges/graphql/operation-shapes.ts';

type EnumShape = Extract<Shape, { kind: 'enum' }>;

function enumShapes(schema: z.ZodObject): EnumShape[] {
  const { shape } = shapeOf(schema, 'output');
  if (shape.kind !== 'object') throw new Error('not an object');
  return shape.members.map((member) => member.shape as EnumShape);
}

const letter = z.enum(['first-letter', 'b']).meta({ id: 'Letter' });
const digit = z.enum(['1', '2']);

describe('an enum type', () => {
  it('has the id of its schema, also where the schema is described or optional', () => {
    const enums = new Enums();
    const shapes = enumShapes(z.object({ plain: letter, about: letter.meta({ description: 'x' }).optional() }));
    const [plain, about] = shapes.map((shape, n) => enums.of(shape, `Place${n}`));
    expect(plain).toBe(about);
    expect([plain?.name, plain?.getValues().map(({ name, value }) => [name, value])]).toEqual([
      'Letter',
      [
        ['FIRST_LETTER', 'first-letter'],
        ['B', 'b'],
      ],
    ]);
    expect(enums.named('Letter', letter.options)).toBe(plain);
  });

  it('without an id is named after the place where it occurs first', () => {
    const enums = new Enums();
    const [one, other] = enumShapes(z.object({ one: digit, other: z.enum(digit.options) }));
    expect(enums.of(one as EnumShape, 'OneDigit').name).toBe('OneDigit');
    expect(enums.of(other as EnumShape, 'OtherDigit').name).toBe('OneDigit');
  });

  it('is refused a second name', () => {
    const enums = new Enums();
    const [unnamed, named] = enumShapes(z.object({ unnamed: z.enum(letter.options), named: letter }));
    enums.of(unnamed as EnumShape, 'Place');
    expect(() => enums.of(named as EnumShape, 'Other')).toThrow('Letter has the same values as Place');
  });
});

import { type GraphQLObjectType, GraphQLUnionType } from 'graphql';
import type { Context } from './context.ts';
import type { Outputs } from './outputs.ts';
import type { Shape } from './schemas.ts';

/** One of the things that an operation may answer. */
export interface Variant {
  type: GraphQLObjectType;
  /** Members that it always has. */
  marks: readonly string[];
}

export function variantOf(outputs: Outputs, shape: Shape, name: string): Variant {
  if (shape.kind === 'nothing') return { type: outputs.done, marks: [] };
  if (shape.kind !== 'object') throw new Error(`${name} is no object`);
  const marks = shape.members.filter(({ required }) => required).map((member) => member.name);
  return { type: outputs.object(shape, name), marks };
}

export const unionOf = (
  name: string,
  variants: readonly Variant[],
  more: readonly { type: GraphQLObjectType; is(value: unknown): boolean }[] = [],
): GraphQLUnionType =>
  new GraphQLUnionType<object, Context>({
    name,
    types: [...variants, ...more].map(({ type }) => type),
    resolveType(value) {
      const other = more.find((one) => one.is(value));
      const found = other ?? variants.find(({ marks }) => marks.every((mark) => mark in value));
      if (found === undefined) throw new Error(`no ${name} is like this`);
      return found.type.name;
    },
  });

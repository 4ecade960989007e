import { type GraphQLObjectType, GraphQLUnionType } from 'graphql';
import type { Context } from './context.ts';
import type { Shape } from './operation-shapes.ts';
import type { OutputTypes } from './output-types.ts';

/** One of the things that an operation may answer. */
export interface Variant {
  type: GraphQLObjectType;
  /** Members that it always has. */
  requiredMembers: readonly string[];
}

export function variantOf(outputs: OutputTypes, shape: Shape, name: string): Variant {
  if (shape.kind === 'nothing') return { type: outputs.done, requiredMembers: [] };
  if (shape.kind !== 'object') throw new Error(`${name} is no object`);
  const marks = shape.members.filter(({ required }) => required).map((member) => member.name);
  return { type: outputs.object(shape, name), requiredMembers: marks };
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
      const found = other ?? variants.find(({ requiredMembers }) => requiredMembers.every((mark) => mark in value));
      if (found === undefined) throw new Error(`no ${name} is like this`);
      return found.type.name;
    },
  });

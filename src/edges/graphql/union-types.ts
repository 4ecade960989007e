import { type GraphQLObjectType, GraphQLUnionType } from 'graphql';
import type { GraphqlContext } from './graphql-context.ts';
import type { Shape } from './operation-shapes.ts';
import type { OutputTypes } from './output-types.ts';

/** One variant of an operation's result. */
export interface Variant {
  type: GraphQLObjectType;
  /** Required members, by which a value of this variant is recognised. */
  requiredMembers: readonly string[];
}

export function variantOf(outputs: OutputTypes, shape: Shape, name: string): Variant {
  if (shape.kind === 'nothing') return { type: outputs.done, requiredMembers: [] };
  if (shape.kind !== 'object') throw new Error(`${name} must be an object`);
  const requiredMembers = shape.members.filter(({ required }) => required).map((member) => member.name);
  return { type: outputs.object(shape, name), requiredMembers };
}

export const unionOf = (
  name: string,
  variants: readonly Variant[],
  more: readonly { type: GraphQLObjectType; is(value: unknown): boolean }[] = [],
): GraphQLUnionType =>
  new GraphQLUnionType<object, GraphqlContext>({
    name,
    types: [...variants, ...more].map(({ type }) => type),
    resolveType(value) {
      const other = more.find((one) => one.is(value));
      const found = other ?? variants.find(({ requiredMembers }) => requiredMembers.every((member) => member in value));
      if (found === undefined) throw new Error(`the value matches no variant of ${name}`);
      return found.type.name;
    },
  });

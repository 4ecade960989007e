import {
  type GraphQLFieldConfig,
  GraphQLList,
  GraphQLNonNull,
  type GraphQLNullableOutputType,
  type GraphQLObjectType,
  type GraphQLOutputType,
} from 'graphql';
import { z } from 'zod';
import { listCount } from '../../operations/inputs.ts';
import type { Performed } from '../../operations/perform.ts';
import { pascal } from './casing.ts';
import { connectionOf } from './connection-types.ts';
import { describeOperation, memberOf, membersOf } from './descriptions.ts';
import { type GraphqlContext, performRead } from './graphql-context.ts';
import type { InputTypes } from './input-types.ts';
import { DEFAULT_PAGE_SIZE } from './operation-cost.ts';
import { type Shape, shapeOf } from './operation-shapes.ts';
import { ASSUMED_ENTRIES, type OutputTypes } from './output-types.ts';
import type { RelayConnection } from './relay-connection.ts';
import type { QueryField } from './root-fields.ts';
import { unionOf, variantOf } from './union-types.ts';

/** Fixed cost of a query field, in points (operation-cost.ts). */
const READ_COST = 10;

type Field = GraphQLFieldConfig<unknown, GraphqlContext>;
type Body = Readonly<Record<string, unknown>>;
interface TypeBuilders {
  inputs: InputTypes;
  outputs: OutputTypes;
  /** By the type of their nodes: lists of the same type have the same connection. */
  connections: Map<GraphQLObjectType, GraphQLObjectType>;
  /** Builds the executed schema, not the public one. */
  executed: boolean;
}

export function queryField(builders: TypeBuilders, name: string, row: QueryField): Field {
  if (row.connectionMember !== undefined) return connectionField(builders, name, row, row.connectionMember);
  const { operation, resultMember, listLimits } = row;
  const members = membersOf(shapeOf(operation.input, 'input').shape);
  const { fields: args, read: readInput } = builders.inputs.fields(members, pascal(name));
  const body = shapeOf(operation.output, 'output').shape;
  const result = resultMember === undefined ? body : memberOf(body, resultMember);
  return {
    type: resultType(builders.outputs, result, row, pascal(name)),
    description: describeOperation(operation),
    args,
    extensions: {
      ...{ cost: READ_COST, operation, ...(listLimits !== undefined && { listLimits }) },
      ...(result.kind === 'list' && { assumedEntries: ASSUMED_ENTRIES }),
    },
    resolve: async (_, given, context) => {
      const { body } = await performRead(context, operation, readInput(withLimits(given, listLimits)));
      return resultMember === undefined ? body : (body as Body)[resultMember];
    },
  };
}

/** The arguments with the defaults that they lack, or that are null. */
const withLimits = (given: Readonly<Record<string, unknown>>, listLimits: QueryField['listLimits'] = {}): object => ({
  ...given,
  ...Object.fromEntries(Object.entries(listLimits).map(([name, size]) => [name, given[name] ?? size])),
});

/** Nullable, so that the refusal of one field leaves the results of the others. */
function resultType(outputs: OutputTypes, shape: Shape, row: QueryField, place: string): GraphQLNullableOutputType {
  const name = row.typeName ?? place;
  if (shape.kind === 'union') {
    return unionOf(
      name,
      shape.of.map((one, n) => variantOf(outputs, one, row.typeNames?.[n] ?? `${name}${n}`)),
    );
  }
  if (shape.kind !== 'list') return outputs.nullableType(shape, name);
  const entry: GraphQLOutputType = new GraphQLNonNull(outputs.nullableType(shape.of.shape, name));
  return new GraphQLList(entry);
}

/** The other members of a connection whose list is a bare array. */
const BARE_LIST = shapeOf(z.object({ count: listCount }), 'output').shape;

const PAGING = { limit: 'first', cursor: 'after' } as const;

function connectionField(
  { inputs, outputs, connections, executed }: TypeBuilders,
  name: string,
  { operation }: QueryField,
  connectionMember: string,
): Field {
  const body = shapeOf(operation.output, 'output').shape;
  const member = body.kind === 'list' ? null : connectionMember;
  const list = member === null ? body : memberOf(body, member);
  if (list.kind !== 'list' || list.of.shape.kind !== 'object') throw new Error(`${name} must be a list of objects`);
  const node = outputs.object(list.of.shape, pascal(name));
  const otherMembers = membersOf(member === null ? BARE_LIST : body).filter(
    (one) => one.name !== member && one.name !== 'next_cursor',
  );
  const members = membersOf(shapeOf(operation.input, 'input').shape);
  const { fields: args, read: readInput } = inputs.fields(members, pascal(name), PAGING);
  Object.assign(args.first ?? {}, { description: 'Maximum number of entries, 1 to 200; the default is 50' });
  Object.assign(args.after ?? {}, { description: 'Cursor; the page starts after it' });
  const type = connections.get(node) ?? connectionOf(outputs, node, otherMembers, executed);
  connections.set(node, type);
  return {
    type,
    description: describeOperation(operation),
    args,
    extensions: { cost: READ_COST, operation, isConnection: true },
    resolve: async (_, given, context) => {
      const input = readInput({ ...given, first: given.first ?? DEFAULT_PAGE_SIZE });
      return toConnection(await performRead(context, operation, input), member, typeof given.after === 'string');
    },
  };
}

function toConnection(
  { body, next, total, cursors }: Performed,
  member: string | null,
  hasPreviousPage: boolean,
): RelayConnection {
  const object = (member === null ? { count: total ?? null } : body) as Body;
  const nodes = (member === null ? body : object[member]) as readonly object[];
  const nextCursor = member === null ? next : object.next_cursor;
  let computed: readonly string[] | undefined;
  return {
    nodes,
    body: object,
    hasNextPage: typeof nextCursor === 'string',
    hasPreviousPage,
    nextCursor: typeof nextCursor === 'string' ? nextCursor : null,
    cursors() {
      computed ??= cursors?.() ?? [];
      return computed;
    },
  };
}

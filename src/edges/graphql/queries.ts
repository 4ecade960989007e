import {
  type GraphQLFieldConfig,
  GraphQLList,
  GraphQLNonNull,
  type GraphQLNullableOutputType,
  type GraphQLOutputType,
} from 'graphql';
import type { Performed } from '../../operations/perform.ts';
import { pascal } from './casing.ts';
import type { Connection } from './connection.ts';
import { connectionOf } from './connection-types.ts';
import { type Context, performRead } from './context.ts';
import { describeOperation, memberOf, membersOf } from './descriptions.ts';
import type { InputTypes } from './input-types.ts';
import { type Shape, shapeOf } from './operation-shapes.ts';
import { ASSUMED_ENTRIES, type OutputTypes } from './output-types.ts';
import type { QueryField } from './root-fields.ts';
import { unionOf, variantOf } from './union-types.ts';

/** What asking costs beside what is answered (limits.ts). */
const READ_COST = 10;

type Field = GraphQLFieldConfig<unknown, Context>;
type Body = Readonly<Record<string, unknown>>;
interface TypeBuilders {
  inputs: InputTypes;
  outputs: OutputTypes;
  /** For the schema that is executed, not for the one that is shown. */
  executed: boolean;
}

export function queryField(makers: TypeBuilders, name: string, row: QueryField): Field {
  if (row.connectionMember !== undefined) return connectionField(makers, name, row, row.connectionMember);
  const { operation, resultMember } = row;
  const members = membersOf(shapeOf(operation.input, 'input').shape);
  const { fields: args, read: readInput } = makers.inputs.fields(members, pascal(name));
  const body = shapeOf(operation.output, 'output').shape;
  const shown = resultMember === undefined ? body : memberOf(body, resultMember);
  return {
    type: resultType(makers.outputs, shown, row, pascal(name)),
    description: describeOperation(operation),
    args,
    extensions: { cost: READ_COST, operation, ...(shown.kind === 'list' && { entries: ASSUMED_ENTRIES }) },
    resolve: async (_, given, context) => {
      const { body } = await performRead(context, operation, readInput(given));
      return resultMember === undefined ? body : (body as Body)[resultMember];
    },
  };
}

/** Nullable: a field that is refused leaves the others their answers. */
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

const PAGING = { limit: 'first', cursor: 'after' } as const;

function connectionField(
  { inputs, outputs, executed }: TypeBuilders,
  name: string,
  { operation }: QueryField,
  pages: string,
): Field {
  const body = shapeOf(operation.output, 'output').shape;
  const member = body.kind === 'list' ? null : pages;
  const list = member === null ? body : memberOf(body, member);
  if (list.kind !== 'list' || list.of.shape.kind !== 'object') throw new Error(`${name} is no list of things`);
  const node = outputs.object(list.of.shape, pascal(name));
  const beside = membersOf(body).filter((one) => one.name !== member && one.name !== 'next_cursor');
  const members = membersOf(shapeOf(operation.input, 'input').shape);
  const { fields: args, read: readInput } = inputs.fields(members, pascal(name), PAGING);
  Object.assign(args.first ?? {}, { description: 'At most so many entries: 1 to 200, 50 where it is left out' });
  Object.assign(args.after ?? {}, { description: 'A cursor: what comes after it' });
  return {
    type: connectionOf(outputs, node, beside, executed),
    description: describeOperation(operation),
    args,
    extensions: { cost: READ_COST, operation, pages: true },
    resolve: async (_, given, context) =>
      toConnection(await performRead(context, operation, readInput(given)), member, typeof given.after === 'string'),
  };
}

function toConnection({ body, next, cursors }: Performed, member: string | null, hasPreviousPage: boolean): Connection {
  const whole = (member === null ? {} : body) as Body;
  const nodes = (member === null ? body : whole[member]) as readonly object[];
  const following = member === null ? next : whole.next_cursor;
  let made: readonly string[] | undefined;
  return {
    nodes,
    body: whole,
    hasNextPage: typeof following === 'string',
    hasPreviousPage,
    nextCursor: typeof following === 'string' ? following : null,
    cursors() {
      made ??= cursors?.() ?? [];
      return made;
    },
  };
}

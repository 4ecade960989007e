import {
  type GraphQLFieldConfig,
  GraphQLList,
  GraphQLNonNull,
  type GraphQLNullableOutputType,
  type GraphQLOutputType,
} from 'graphql';
import type { Performed } from '../../operations/perform.ts';
import { aboutOf, memberOf, membersOf } from './about.ts';
import { connectionOf } from './connections.ts';
import { type Context, read } from './context.ts';
import type { QueryField } from './fields.ts';
import type { Inputs } from './inputs.ts';
import type { Listed } from './listed.ts';
import { pascal } from './names.ts';
import { type Outputs, USUAL_ENTRIES } from './outputs.ts';
import { type Shape, shapeOf } from './schemas.ts';
import { unionOf, variantOf } from './unions.ts';

/** What asking costs beside what is answered (limits.ts). */
const READ_COST = 10;

type Field = GraphQLFieldConfig<unknown, Context>;
type Body = Readonly<Record<string, unknown>>;
interface Makers {
  inputs: Inputs;
  outputs: Outputs;
  /** For the schema that is executed, not for the one that is shown. */
  executed: boolean;
}

export function queryField(makers: Makers, name: string, row: QueryField): Field {
  if (row.pages !== undefined) return pagesField(makers, name, row, row.pages);
  const { operation, shows } = row;
  const members = membersOf(shapeOf(operation.input, 'input').shape);
  const { fields: args, read: readInput } = makers.inputs.fields(members, pascal(name));
  const body = shapeOf(operation.output, 'output').shape;
  const shown = shows === undefined ? body : memberOf(body, shows);
  return {
    type: shownType(makers.outputs, shown, row, pascal(name)),
    description: aboutOf(operation),
    args,
    extensions: { cost: READ_COST, operation, ...(shown.kind === 'list' && { entries: USUAL_ENTRIES }) },
    resolve: async (_, given, context) => {
      const { body } = await read(context, operation, readInput(given));
      return shows === undefined ? body : (body as Body)[shows];
    },
  };
}

/** Nullable: a field that is refused leaves the others their answers. */
function shownType(outputs: Outputs, shape: Shape, row: QueryField, place: string): GraphQLNullableOutputType {
  const name = row.name ?? place;
  if (shape.kind === 'union') {
    return unionOf(
      name,
      shape.of.map((one, n) => variantOf(outputs, one, row.names?.[n] ?? `${name}${n}`)),
    );
  }
  if (shape.kind !== 'list') return outputs.bare(shape, name);
  const entry: GraphQLOutputType = new GraphQLNonNull(outputs.bare(shape.of.shape, name));
  return new GraphQLList(entry);
}

const PAGING = { limit: 'first', cursor: 'after' } as const;

function pagesField(
  { inputs, outputs, executed }: Makers,
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
    description: aboutOf(operation),
    args,
    extensions: { cost: READ_COST, operation, pages: true },
    resolve: async (_, given, context) =>
      listedOf(await read(context, operation, readInput(given)), member, typeof given.after === 'string'),
  };
}

function listedOf({ body, next, cursors }: Performed, member: string | null, hasPreviousPage: boolean): Listed {
  const whole = (member === null ? {} : body) as Body;
  const nodes = (member === null ? body : whole[member]) as readonly object[];
  const following = member === null ? next : whole.next_cursor;
  let made: readonly string[] | undefined;
  return {
    nodes,
    body: whole,
    hasNextPage: typeof following === 'string',
    hasPreviousPage,
    following: typeof following === 'string' ? following : null,
    cursors() {
      made ??= cursors?.() ?? [];
      return made;
    },
  };
}

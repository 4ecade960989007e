import {
  type GraphQLField,
  type GraphQLInputType,
  type GraphQLOutputType,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isObjectType,
  isUnionType,
} from 'graphql';
import { camel, constantCase } from '../../../src/edges/graphql/casing.ts';
import { mutations, queries } from '../../../src/edges/graphql/root-fields.ts';
import { makeSchema } from '../../../src/edges/graphql/schema.ts';
import type { Answered, Edge } from './edge-client.ts';

const schema = makeSchema();
const fieldOf = new Map(
  [...Object.entries(queries), ...Object.entries(mutations)].map(([name, row]) => [row.operation.name, { name, row }]),
);

/** Relations between types, which no REST operation returns. */
const LINKS: Readonly<Record<string, readonly string[]>> = {
  Device: ['home', 'room', 'manifest'],
  Home: ['rooms', 'devices'],
  Room: ['home', 'devices'],
  Group: ['devices'],
  Command: ['device'],
  Confirmation: ['device'],
  PlanStep: ['device'],
  TimelineEntry: ['device'],
};

/** All fields of a type. */
function everything(type: GraphQLOutputType): string {
  const named = getNamedType(type);
  if (isUnionType(named)) {
    return `{ __typename ${named
      .getTypes()
      .map((one) => `... on ${one.name} ${everything(one)}`)
      .join(' ')} }`;
  }
  if (!isObjectType(named)) return '';
  const connection = named.name.endsWith('Connection');
  // The status of a refusal is a number and that of a result a string, so they need different aliases.
  const fields = Object.values(named.getFields()).filter(
    ({ name }) =>
      !LINKS[named.name]?.includes(name) &&
      !(connection && name === 'edges') &&
      !(named.name === 'Refused' && name === 'status'),
  );
  return `{ ${fields.map((field) => `${field.name} ${everything(field.type)}`).join(' ')} }`;
}

/** A wire value as a variable of that type. */
function variable(type: GraphQLInputType, value: unknown): unknown {
  if (isNonNullType(type)) return variable(type.ofType, value);
  if (isListType(type)) return Array.isArray(value) ? value.map((one) => variable(type.ofType, one)) : value;
  if (isEnumType(type)) return typeof value === 'string' ? constantCase(value) : value;
  if (!isInputObjectType(type) || typeof value !== 'object' || value === null) return value;
  const fields = type.getFields();
  if (type.isOneOf) {
    const { type: kind, payload } = value as { type: string; payload: unknown };
    const field = fields[camel(kind)];
    return { [camel(kind)]: field === undefined ? payload : variable(field.type, payload) };
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      const field = fields[camel(name)];
      return [camel(name), field === undefined ? one : variable(field.type, one)];
    }),
  );
}

const RENAMED: Readonly<Record<string, string>> = { limit: 'first', cursor: 'after' };

function argumentsOf(input: object, { name, args }: GraphQLField<unknown, unknown>, changes: boolean) {
  const given = changes
    ? { input: variable((args[0] as { type: GraphQLInputType }).type, input) }
    : Object.fromEntries(
        Object.entries(input).map(([member, value]) => {
          const argument = RENAMED[member] ?? camel(member);
          const type = args.find((one) => one.name === argument)?.type;
          return [argument, type === undefined ? value : variable(type, value)];
        }),
      );
  const known = args.filter((one) => one.name in given);
  const declared = known.map((one) => `$${one.name}: ${one.type}`).join(', ');
  const passed = known.map((one) => `${one.name}: $${one.name}`).join(', ');
  // Members unknown to the field are passed too: GraphQL refuses them.
  const unknown = Object.keys(given).filter((one) => !known.some((arg) => arg.name === one));
  const all = [passed, ...unknown.map((one) => `${one}: 1`)].filter((one) => one !== '').join(', ');
  return {
    text: `${name}${all === '' ? '' : `(${all})`}`,
    declared: declared === '' ? '' : `(${declared})`,
    variables: given,
  };
}

export const graphql: Edge = {
  name: 'GraphQL',
  via: 'graphql',
  has: ({ route }) => fieldOf.has(route.operation.name),
  // A field returns one member of the response; the other members echo the request.
  omits: ({ operation }) => (operation.name === 'keyHistory' ? ['device_id'] : []),
  async call({ service, route, input, token }) {
    const { operation } = route;
    const { name, row } = fieldOf.get(operation.name) as { name: string; row: (typeof queries)[string] };
    const root = operation.changes ? schema.getMutationType() : schema.getQueryType();
    const field = root?.getFields()[name] as GraphQLField<unknown, unknown>;
    const { text, declared, variables } = argumentsOf(input, field, operation.changes);
    const query = `${operation.changes ? 'mutation' : 'query'}${declared} { ${text} ${everything(field.type)} }`;
    const { body } = await service.call('POST', '/graphql', {
      body: { query, variables },
      ...(token !== undefined && { token }),
    });
    return answered(body, name, row);
  },
};

// biome-ignore lint/suspicious/noExplicitAny: an answer as a client reads it
function answered(body: any, name: string, row: (typeof queries)[string]): Answered {
  if (body.code !== undefined) return body;
  const error = body.errors?.[0];
  // A request that GraphQL itself refuses is invalid too.
  if (error !== undefined) return { detail: error.message, code: 'VALIDATION_FAILED', ...error.extensions };
  const given = body.data[name];
  if (given.__typename === 'Refused') return given;
  if (given.__typename === 'Done') return { body: null };
  if (row.connectionMember !== undefined) {
    const { nodes, pageInfo, totalCount, edges: _, ...others } = given;
    if (row.connectionMember === 'the body') return { body: nodes };
    const next_cursor = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    return {
      body: {
        ...{ ...others, [row.connectionMember]: nodes, next_cursor },
        ...(totalCount !== undefined && { count: totalCount }),
      },
    };
  }
  return { body: row.resultMember === undefined ? given : { [row.resultMember]: given } };
}

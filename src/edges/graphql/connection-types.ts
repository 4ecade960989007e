import {
  GraphQLBoolean,
  type GraphQLFieldConfigMap,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLString,
} from 'graphql';
import type { GraphqlContext } from './graphql-context.ts';
import { withLeafNodes } from './list-projection.ts';
import type { ShapeMember } from './operation-shapes.ts';
import type { Fields, OutputTypes } from './output-types.ts';
import type { RelayConnection } from './relay-connection.ts';

interface Edge {
  node: object;
  cursor(): string;
}

const pageInfo = new GraphQLObjectType<RelayConnection, GraphqlContext>({
  name: 'PageInfo',
  fields: {
    hasNextPage: { type: new GraphQLNonNull(GraphQLBoolean) },
    hasPreviousPage: {
      type: new GraphQLNonNull(GraphQLBoolean),
      description: 'Whether the page starts after a cursor; lists are paged forwards only',
    },
    startCursor: { type: GraphQLString, resolve: ({ cursors }) => cursors()[0] },
    endCursor: { type: GraphQLString, resolve: ({ nextCursor, cursors }) => nextCursor ?? cursors().at(-1) },
  },
});

/** The Relay connection of a list, including the other members of the response body. */
export function connectionOf(
  outputs: OutputTypes,
  node: GraphQLObjectType,
  otherMembers: readonly ShapeMember[],
  executed: boolean,
): GraphQLObjectType<RelayConnection, GraphqlContext> {
  const edge = new GraphQLObjectType<Edge, GraphqlContext>({
    name: `${node.name.replace(/Entry$/, '')}Edge`,
    fields: {
      cursor: { type: new GraphQLNonNull(GraphQLString), resolve: (edge) => edge.cursor() },
      node: { type: new GraphQLNonNull(node) },
    },
  });
  return new GraphQLObjectType<RelayConnection, GraphqlContext>({
    name: `${node.name.replace(/Entry$/, '')}Connection`,
    fields: () => {
      const fields: GraphQLFieldConfigMap<RelayConnection, GraphqlContext> = {
        edges: {
          type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(edge))),
          resolve: ({ nodes, cursors }) =>
            nodes.map((node, n): Edge => ({ node, cursor: () => cursors()[n] as string })),
        },
        nodes: { type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(node))) },
        pageInfo: { type: new GraphQLNonNull(pageInfo), resolve: (connection) => connection },
        ...bodyFields(outputs.fields(otherMembers, node.name)),
      };
      return executed ? withLeafNodes(fields) : fields;
    },
  });
}

function bodyFields(fields: Fields): GraphQLFieldConfigMap<RelayConnection, GraphqlContext> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, { type, description, resolve }]) => [
      name === 'count' ? 'totalCount' : name,
      {
        type,
        description: description ?? null,
        resolve: ({ body }: RelayConnection, args, context: GraphqlContext, info) =>
          resolve === undefined ? body[name] : resolve(body, args, context, info),
      },
    ]),
  );
}

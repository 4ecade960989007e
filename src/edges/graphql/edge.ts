import type { RequestListener } from 'node:http';
import { makeReady } from './documents.ts';
import { makeFeed } from './feed.ts';
import { type HttpParts, makeListener } from './listener.ts';
import { makeSchema } from './schema.ts';
import { type GraphqlSockets, makeGraphqlSockets, type SocketParts } from './sockets.ts';

type Made = 'schema' | 'ready' | 'feed';

export type GraphqlParts = Omit<HttpParts, Made | 'newId' | 'log'> & Omit<SocketParts, Made>;

export interface GraphqlEdge extends GraphqlSockets {
  listener: RequestListener;
}

/** GraphQL at `/graphql` (contract §6), for HTTP and WebSockets. */
export function makeGraphql(parts: GraphqlParts): GraphqlEdge {
  const { actors, newId, log } = parts.services;
  const schema = makeSchema();
  const ready = makeReady(schema, { hideSuggestions: parts.production });
  const both = { ...parts, schema, ready };
  return {
    listener: makeListener({ ...both, newId, log }),
    ...makeGraphqlSockets({ ...both, feed: makeFeed(actors) }),
  };
}

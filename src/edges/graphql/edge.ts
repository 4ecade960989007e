import type { RequestListener } from 'node:http';
import { sumSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { KindName } from '../shared/live/kinds.ts';
import { makeDocuments } from './documents.ts';
import { makeFeed } from './feed.ts';
import { type HttpParts, makeListener } from './listener.ts';
import { schemas } from './schema.ts';
import { type GraphqlSockets, makeGraphqlSockets, type SocketParts } from './sockets.ts';

type Hears = (tenantId: Uuid, kind: KindName) => number;
type Made = 'schema' | 'ready' | 'feed';

export type GraphqlParts = Omit<HttpParts, Made | 'newId' | 'log'> & Omit<SocketParts, Made>;

export interface GraphqlEdge extends GraphqlSockets {
  listener: RequestListener;
  /** How many subscriptions hear of this in that tenant. */
  hears: Hears;
}

/** GraphQL at `/graphql` (contract §6), for HTTP and WebSockets. */
export function makeGraphql(parts: GraphqlParts): GraphqlEdge {
  const { actors, newId, log } = parts.services;
  const [schema, executed] = schemas();
  const documents = makeDocuments([schema, executed], { hideSuggestions: parts.production });
  const feed = makeFeed(actors);
  const both = { ...parts, schema, ready: documents.ready };
  const sockets = makeGraphqlSockets({ ...both, feed });
  return {
    listener: makeListener({ ...both, newId, log }),
    hears: (tenantId, kind) => feed.ears(kind, tenantId),
    ...sockets,
    sizes: () => sumSizes([documents, feed, sockets]),
  };
}

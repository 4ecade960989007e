import type { RequestListener } from 'node:http';
import { sumSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { UpdateKindName } from '../shared/live/update-kinds.ts';
import { makeDocumentCache } from './documents.ts';
import { type HttpParts, makeGraphqlListener } from './listener.ts';
import { makeLiveEventSource } from './live-event-source.ts';
import { getSchemas } from './schema.ts';
import { type GraphqlSockets, makeGraphqlSockets, type SocketParts } from './sockets.ts';

type SubscriberCount = (tenantId: Uuid, kind: UpdateKindName) => number;
type BuiltParts = 'schema' | 'prepareDocument' | 'eventSource';

export type GraphqlParts = Omit<HttpParts, BuiltParts | 'newId' | 'log'> & Omit<SocketParts, BuiltParts>;

export interface GraphqlEdge extends GraphqlSockets {
  listener: RequestListener;
  /** How many subscriptions hear of this in that tenant. */
  subscriberCount: SubscriberCount;
}

/** GraphQL at `/graphql` (contract §6), for HTTP and WebSockets. */
export function makeGraphql(parts: GraphqlParts): GraphqlEdge {
  const { actors, newId, log } = parts.services;
  const [schema, executed] = getSchemas();
  const documents = makeDocumentCache([schema, executed], { hideSuggestions: parts.production });
  const feed = makeLiveEventSource(actors);
  const both = { ...parts, schema, prepareDocument: documents.prepare };
  const sockets = makeGraphqlSockets({ ...both, eventSource: feed });
  return {
    listener: makeGraphqlListener({ ...both, newId, log }),
    subscriberCount: (tenantId, kind) => feed.subscriberCount(kind, tenantId),
    ...sockets,
    sizes: () => sumSizes([documents, feed, sockets]),
  };
}

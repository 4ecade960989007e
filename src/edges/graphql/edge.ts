import type { RequestListener } from 'node:http';
import { type SizeReporter, sumSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { UpdateKindName } from '../shared/live/update-kinds.ts';
import { makeDocumentCache } from './documents.ts';
import { type HttpParts, makeGraphqlListener } from './listener.ts';
import { makeLiveEventSource } from './live-event-source.ts';
import type { RequestParams } from './request-params.ts';
import { schemas } from './schema.ts';
import { GraphqlSockets, type SocketParts } from './sockets.ts';

type SubscriberCount = (tenantId: Uuid, kind: UpdateKindName) => number;
type BuiltParts = 'publicSchema' | 'prepareDocument' | 'eventSource';

export type GraphqlParts = Omit<HttpParts, BuiltParts | 'newId' | 'log'> & Omit<SocketParts, BuiltParts>;

export interface GraphqlEdge
  extends SizeReporter,
    Pick<GraphqlSockets, 'upgrade' | 'connections' | 'close' | 'endTenants'> {
  listener: RequestListener;
  /** Active subscriptions to this kind of update in a tenant. */
  subscriberCount: SubscriberCount;
}

/** GraphQL edge at `/graphql` (contract §6): HTTP listener and WebSocket server. Its schemas are built by the first document. */
export function makeGraphql(parts: GraphqlParts): GraphqlEdge {
  const { actors, newId, log } = parts.services;
  const documents = makeDocumentCache(() => schemas.get(), { hideSuggestions: parts.production });
  const eventSource = makeLiveEventSource(actors);
  const common = {
    ...{ ...parts, publicSchema: () => schemas.get()[0] },
    // The first documents wait for the schemas while other requests are answered.
    prepareDocument: async (params: RequestParams) => {
      await schemas.build();
      return documents.prepare(params);
    },
  };
  const sockets = new GraphqlSockets({ ...common, eventSource });
  return {
    listener: makeGraphqlListener({ ...common, newId, log }),
    subscriberCount: (tenantId, kind) => eventSource.subscriberCount(kind, tenantId),
    upgrade: (request, socket, head) => sockets.upgrade(request, socket, head),
    connections: () => sockets.connections(),
    endTenants: (matches) => sockets.endTenants(matches),
    close: () => sockets.close(),
    sizes: () => sumSizes([documents, eventSource, sockets]),
  };
}

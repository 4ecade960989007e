import { toJsonSchema } from '../../domain/message-schema.ts';
import type { JsonObject } from '../../domain/values.ts';
import { actorKinds } from '../../machines/outputs.ts';
import { type Addresses, type AsyncApiPart, ref } from '../shared/asyncapi-builder.ts';
import { closeReasons } from '../shared/live/close-codes.ts';
import { type UpdateKindName, updateKindNames, updateKinds } from '../shared/live/update-kinds.ts';
import { actorAccessRequirement, transitionFields } from './actor-stream.ts';

const TAG = 'WebSocket';
const SERVER = 'websocket';

const EXAMPLE_AT = 1_767_225_600_000; // 2026-01-01T00:00:00Z

/** Example values of fields. */
const samples: Readonly<Record<string, JsonObject[string]>> = {
  device_id: '0195d9a2-7f00-7000-8000-000000000001',
  command_id: '0195d9a2-7f00-7000-8000-000000000003',
  plan_id: '0195d9a2-7f00-7000-8000-000000000007',
  step_id: 'lock',
  step_status: 'succeeded',
  state: { on: true, brightness: 40 },
  ...{ report: { brightness: 40 }, device_timestamp: EXAMPLE_AT - 250, sequence_number: 17 },
  online: true,
  status: 'succeeded',
  verification: 'verified',
  ...{ battery: 87, rssi: -61, uptime_s: 3_600, free_heap: 143_360, device_type: 'smart_light', manifest_version: 1 },
  progress: 100,
  expires_at: EXAMPLE_AT + 300_000,
  timestamp: EXAMPLE_AT,
};

const nameOf = (kind: UpdateKindName): string => `${kind}_update`;
const schemaNameOf = (kind: UpdateKindName): string => `${kind[0]?.toUpperCase()}${kind.slice(1)}Update`;

function updateOf(kind: UpdateKindName): JsonObject {
  const { description, role, scope, fields, optional } = updateKinds[kind];
  return {
    name: nameOf(kind),
    title: nameOf(kind),
    summary: description,
    description: `Sent with \`events=${kind}\`. Requires the role \`${role}\` and, if the credential has scopes, \`${scope}\`.`,
    payload: ref.schema(schemaNameOf(kind)),
    examples: [
      {
        name: nameOf(kind),
        payload: Object.fromEntries(
          // An optional field without a sample does not fit the others, such as a refusal a success.
          Object.keys({ ...fields, ...optional })
            .filter((name) => name in fields || name in samples)
            .map((name) => [name, name === 'type' ? nameOf(kind) : (samples[name] ?? null)]),
        ),
      },
    ],
  };
}

const text = (content: string, summary: string): JsonObject => ({
  name: content,
  title: content,
  summary,
  contentType: 'text/plain',
  payload: { type: 'string', const: content },
  examples: [{ name: content, payload: content }],
});

const query: JsonObject = {
  type: 'object',
  properties: {
    token: {
      type: 'string',
      description:
        'A bearer token, an API key, or a ticket from `POST /ws/ticket` (valid once, for 30 seconds; use it in browsers)',
    },
    events: {
      type: 'string',
      default: 'state',
      description: `The kinds of updates to send, separated by commas: ${updateKindNames.join(', ')}`,
      examples: [updateKindNames.join(',')],
    },
    device_id: {
      type: 'array',
      items: { type: 'string', format: 'uuid' },
      description: 'Only updates of these devices; repeat the parameter for each. An unknown id matches nothing.',
    },
    snapshot: {
      type: 'string',
      enum: ['0', '1'],
      default: '0',
      description: 'First send the current state of every device that has reported one',
    },
  },
  required: ['token'],
};

const STATE_STREAM = `Updates about the devices of one tenant. The handshake is always accepted; errors close the connection with one of these codes:

${Object.entries(closeReasons)
  .map(([code, { why, advice }]) => `- \`${code}\`: ${why}; ${advice}.`)
  .join('\n')}

Changes of the client's permissions take effect within a second. Up to 1 MiB is buffered per connection, in order; a client that is further behind gets only the latest update of each subject.`;

const actorQuery: JsonObject = {
  type: 'object',
  properties: {
    token: (query.properties as JsonObject).token as JsonObject,
    kind: { type: 'string', description: `Only actors of these kinds, separated by commas: ${actorKinds.join(', ')}` },
    tenant_id: {
      type: 'string',
      format: 'uuid',
      description: 'Platform operators only: the tenant to follow',
    },
  },
  required: ['token'],
};

const TRANSITION = 'actor_transition';
const transition: JsonObject = {
  name: TRANSITION,
  title: TRANSITION,
  summary: "An actor's state changed, or a user's action was applied to it.",
  description: `Requires the role \`${actorAccessRequirement.role}\` and, if the credential has scopes, \`${actorAccessRequirement.scope}\`.`,
  payload: ref.schema('ActorTransition'),
  examples: [
    {
      name: TRANSITION,
      payload: {
        ...{ type: TRANSITION, kind: 'device', id: '0195d9a2-7f00-7000-8000-000000000001', at: EXAMPLE_AT },
        from: 'administration.active.one_key,link.offline',
        to: 'administration.active.one_key,link.online',
        event: 'hello.received',
      },
    },
  ],
};

const ACTOR_STREAM = `Transitions of the actors of one tenant, for its administrators: every change of state, and user actions that changed no state. Device reports that change no state are not sent; /ws/state has them. A client that reads too slowly gets only the latest transition of each actor. Authentication, permission checks and close codes are those of /ws/state.`;

/** The WebSocket part of `/asyncapi.json`. */
export function webSocketAsyncApi(): AsyncApiPart {
  const messages: JsonObject = {
    ...Object.fromEntries(updateKindNames.map((kind) => [nameOf(kind), updateOf(kind)])),
    ping: text('ping', 'Requests a pong. Every other message from a client is ignored.'),
    pong: text('pong', 'Reply to ping, sent once the client is admitted and has its snapshot.'),
  };
  const actorMessages: JsonObject = {
    [TRANSITION]: transition,
    actorPing: messages.ping ?? null,
    actorPong: messages.pong ?? null,
  };
  return {
    tag: { name: TAG, description: 'Live updates of a tenant' },
    servers: ({ httpUrl }: Addresses) => {
      const { host, protocol } = new URL(httpUrl);
      return {
        [SERVER]: {
          host,
          protocol: protocol === 'https:' ? 'wss' : 'ws',
          description: 'On the HTTP port. Not subject to rate limits.',
          security: [ref.security('tokenInQuery')],
          tags: [ref.tag(TAG)],
        },
      };
    },
    channels: {
      stateStream: {
        address: '/ws/state',
        title: '/ws/state',
        description: STATE_STREAM,
        servers: [ref.server(SERVER)],
        messages: Object.fromEntries(Object.keys(messages).map((name) => [name, ref.message(name)])),
        bindings: { ws: { method: 'GET', query, bindingVersion: '0.1.0' } },
        tags: [ref.tag(TAG)],
      },
      actorStream: {
        address: '/ws/actors',
        title: '/ws/actors',
        description: ACTOR_STREAM,
        servers: [ref.server(SERVER)],
        messages: Object.fromEntries(Object.keys(actorMessages).map((name) => [name, ref.message(name)])),
        bindings: { ws: { method: 'GET', query: actorQuery, bindingVersion: '0.1.0' } },
        tags: [ref.tag(TAG)],
      },
    },
    operations: {
      sendUpdates: {
        action: 'send',
        channel: ref.channel('stateStream'),
        title: 'Send updates',
        summary: 'Updates of the kinds that the query parameter events lists. Only durable changes are sent.',
        messages: updateKindNames.map((kind) => ref.messageOf('stateStream', nameOf(kind))),
        security: [ref.security('tokenInQuery')],
        tags: [ref.tag(TAG)],
      },
      sendTransitions: {
        action: 'send',
        channel: ref.channel('actorStream'),
        title: 'Send actor transitions',
        summary:
          'Transitions of actors of the kinds that the query parameter kind lists. Only durable changes are sent.',
        messages: [ref.messageOf('actorStream', TRANSITION)],
        security: [ref.security('tokenInQuery')],
        tags: [ref.tag(TAG)],
      },
      receiveActorPing: {
        action: 'receive',
        channel: ref.channel('actorStream'),
        title: 'Ping',
        summary: 'The text ping is answered with the text pong.',
        messages: [ref.messageOf('actorStream', 'actorPing')],
        reply: { channel: ref.channel('actorStream'), messages: [ref.messageOf('actorStream', 'actorPong')] },
        security: [ref.security('tokenInQuery')],
        tags: [ref.tag(TAG)],
      },
      receivePing: {
        action: 'receive',
        channel: ref.channel('stateStream'),
        title: 'Ping',
        summary: 'The text ping is answered with the text pong.',
        messages: [ref.messageOf('stateStream', 'ping')],
        reply: { channel: ref.channel('stateStream'), messages: [ref.messageOf('stateStream', 'pong')] },
        security: [ref.security('tokenInQuery')],
        tags: [ref.tag(TAG)],
      },
    },
    messages: { ...messages, ...actorMessages },
    schemas: {
      ...Object.fromEntries(
        updateKindNames.map((kind) => [
          schemaNameOf(kind),
          toJsonSchema({ required: updateKinds[kind].fields, optional: updateKinds[kind].optional }),
        ]),
      ),
      ActorTransition: toJsonSchema({ required: transitionFields, optional: {} }),
    },
    securitySchemes: {
      tokenInQuery: {
        type: 'httpApiKey',
        in: 'query',
        name: 'token',
        description: 'Never logged. The connection ends when the credential expires or is revoked.',
      },
    },
  };
}

import { toJsonSchema } from '../../domain/message-schema.ts';
import type { JsonObject } from '../../domain/values.ts';
import { type Addresses, type AsyncApiPart, ref } from '../shared/asyncapi.ts';
import { closeReasons } from '../shared/live/close-codes.ts';
import { type UpdateKindName, updateKindNames, updateKinds } from '../shared/live/update-kinds.ts';
import { actorAccessRequirement, actorKinds, transitionFields } from './actor-stream.ts';

const TAG = 'WebSocket';
const SERVER = 'websocket';

const EXAMPLE_AT = 1_767_225_600_000; // 2026-01-01T00:00:00Z

/** A likely value of a field, for the examples. */
const samples: Readonly<Record<string, JsonObject[string]>> = {
  device_id: '0195d9a2-7f00-7000-8000-000000000001',
  command_id: '0195d9a2-7f00-7000-8000-000000000003',
  plan_id: '0195d9a2-7f00-7000-8000-000000000007',
  step_id: 'lock',
  step_status: 'succeeded',
  state: { on: true, brightness: 40 },
  online: true,
  status: 'succeeded',
  verification: 'verified',
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
    description: `With \`events=${kind}\`. Needs the role \`${role}\` and, with scopes, \`${scope}\`.`,
    payload: ref.schema(schemaNameOf(kind)),
    examples: [
      {
        name: nameOf(kind),
        payload: Object.fromEntries(
          Object.keys({ ...fields, ...optional }).map((name) => [
            name,
            name === 'type' ? nameOf(kind) : (samples[name] ?? null),
          ]),
        ),
      },
    ],
  };
}

const text = (word: string, summary: string): JsonObject => ({
  name: word,
  title: word,
  summary,
  contentType: 'text/plain',
  payload: { type: 'string', const: word },
  examples: [{ name: word, payload: word }],
});

const query: JsonObject = {
  type: 'object',
  properties: {
    token: {
      type: 'string',
      description:
        'A bearer token, an API key, or a ticket from `POST /ws/ticket` (one use, 30 seconds), which is what a browser takes',
    },
    events: {
      type: 'string',
      default: 'state',
      description: `The exact list of kinds, separated by commas: ${updateKindNames.join(', ')}`,
      examples: [updateKindNames.join(',')],
    },
    device_id: {
      type: 'array',
      items: { type: 'string', format: 'uuid' },
      description: 'Lets only these devices through; repeated for each. An id that names nothing matches nothing.',
    },
    snapshot: {
      type: 'string',
      enum: ['0', '1'],
      default: '0',
      description: 'Begin with the current state of each device that ever reported one',
    },
  },
  required: ['token'],
};

const ABOUT = `Follows the devices of one tenant. The handshake is always accepted, and the connection then closed with a code that says why:

${Object.entries(closeReasons)
  .map(([code, { why, advice }]) => `- \`${code}\`: ${why}; ${advice}.`)
  .join('\n')}

A change of what a client may hear shows within a second. Up to 1 MiB waits in a connection, in order; a client that is further behind gets the latest of each thing instead of all that happened.`;

const actorQuery: JsonObject = {
  type: 'object',
  properties: {
    token: (query.properties as JsonObject).token as JsonObject,
    kind: { type: 'string', description: `Only actors of these kinds, separated by commas: ${actorKinds.join(', ')}` },
    tenant_id: {
      type: 'string',
      format: 'uuid',
      description: 'For platform operators alone: the tenant that is meant',
    },
  },
  required: ['token'],
};

const TRANSITION = 'actor_transition';
const transition: JsonObject = {
  name: TRANSITION,
  title: TRANSITION,
  summary: "An actor's state changed, or a person did something to it.",
  description: `Needs the role \`${actorAccessRequirement.role}\` and, with scopes, \`${actorAccessRequirement.scope}\`.`,
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

const ABOUT_ACTORS = `What happens to the actors of one tenant, for its administrators: each change of a state, and what people did without changing one. What devices report all the time is not told; /ws/state has it. A client that reads too slowly gets the latest transition of each actor. It is let in, looked at and sent away as at /ws/state.`;

/** The part of `/asyncapi.json` that is heard over WebSockets. */
export function webSocketAsyncApi(): AsyncApiPart {
  const messages: JsonObject = {
    ...Object.fromEntries(updateKindNames.map((kind) => [nameOf(kind), updateOf(kind)])),
    ping: text('ping', 'Asks for `pong`. Everything else that a client sends is ignored.'),
    pong: text('pong', 'Answers `ping`, once the client was let in and had its snapshot.'),
  };
  const actorMessages: JsonObject = {
    [TRANSITION]: transition,
    actorPing: messages.ping ?? null,
    actorPong: messages.pong ?? null,
  };
  return {
    tag: { name: TAG, description: 'What happens in a tenant, as it happens' },
    servers: ({ httpUrl }: Addresses) => {
      const { host, protocol } = new URL(httpUrl);
      return {
        [SERVER]: {
          host,
          protocol: protocol === 'https:' ? 'wss' : 'ws',
          description: 'On the HTTP port. Not counted by the rate limits.',
          security: [ref.security('tokenInQuery')],
          tags: [ref.tag(TAG)],
        },
      };
    },
    channels: {
      stateStream: {
        address: '/ws/state',
        title: '/ws/state',
        description: ABOUT,
        servers: [ref.server(SERVER)],
        messages: Object.fromEntries(Object.keys(messages).map((name) => [name, ref.message(name)])),
        bindings: { ws: { method: 'GET', query, bindingVersion: '0.1.0' } },
        tags: [ref.tag(TAG)],
      },
      actorStream: {
        address: '/ws/actors',
        title: '/ws/actors',
        description: ABOUT_ACTORS,
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
        title: 'Tell what happened',
        summary: 'Of the kinds that `events` asked for. Only what is durable is told.',
        messages: updateKindNames.map((kind) => ref.messageOf('stateStream', nameOf(kind))),
        security: [ref.security('tokenInQuery')],
        tags: [ref.tag(TAG)],
      },
      sendTransitions: {
        action: 'send',
        channel: ref.channel('actorStream'),
        title: 'Tell what happened to actors',
        summary: 'Of the kinds that `kind` asked for. Only what is durable is told.',
        messages: [ref.messageOf('actorStream', TRANSITION)],
        security: [ref.security('tokenInQuery')],
        tags: [ref.tag(TAG)],
      },
      receiveActorPing: {
        action: 'receive',
        channel: ref.channel('actorStream'),
        title: 'Ping',
        summary: 'The text `ping` is answered with the text `pong`.',
        messages: [ref.messageOf('actorStream', 'actorPing')],
        reply: { channel: ref.channel('actorStream'), messages: [ref.messageOf('actorStream', 'actorPong')] },
        security: [ref.security('tokenInQuery')],
        tags: [ref.tag(TAG)],
      },
      receivePing: {
        action: 'receive',
        channel: ref.channel('stateStream'),
        title: 'Ping',
        summary: 'The text `ping` is answered with the text `pong`.',
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
        description: 'Never logged. The connection ends when the credential does.',
      },
    },
  };
}

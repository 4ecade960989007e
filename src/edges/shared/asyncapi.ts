import type { JsonObject } from '../../domain/values.ts';
import { SERVICE_NAME, SERVICE_VERSION } from '../../operations/platform/system.ts';

/** Where clients reach the service; known once it listens. */
export interface Addresses {
  /** `http(s)://…`, without a path. */
  httpUrl: string;
  /** `mqtt(s)://…` */
  mqttUrl: string;
}

/** What one edge adds to the document: its names must not be another's. */
export interface AsyncApiPart {
  tag: { name: string; description: string };
  servers(addresses: Addresses): JsonObject;
  channels: JsonObject;
  operations: JsonObject;
  messages: JsonObject;
  schemas: JsonObject;
  securitySchemes: JsonObject;
}

/** AsyncAPI 3.0: everything that is no request and answer, from the same declarations as the checks. */
export function asyncApi(parts: readonly AsyncApiPart[], addresses: Addresses): JsonObject {
  return {
    asyncapi: '3.0.0',
    info: {
      title: `${SERVICE_NAME} events`,
      version: SERVICE_VERSION,
      description:
        'What devices and the service tell each other over MQTT, and what clients hear over WebSocket. An operation says ' +
        'what the service does: it *receives* what a client sends. Times are integer epoch milliseconds, ids are UUIDs. ' +
        'The requests and answers of the REST API are in `/openapi.json`.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
      externalDocs: { description: 'The REST API', url: `${addresses.httpUrl}/docs` },
      tags: parts.map(({ tag }) => ref.tag(tag.name)),
    },
    defaultContentType: 'application/json',
    servers: merged(parts.map((part) => part.servers(addresses))),
    channels: merged(parts.map((part) => part.channels)),
    operations: merged(parts.map((part) => part.operations)),
    components: {
      messages: merged(parts.map((part) => part.messages)),
      schemas: merged(parts.map((part) => part.schemas)),
      securitySchemes: merged(parts.map((part) => part.securitySchemes)),
      tags: Object.fromEntries(parts.map(({ tag }) => [tag.name, { ...tag }])),
    },
  };
}

function merged(objects: readonly JsonObject[]): JsonObject {
  const whole: JsonObject = {};
  for (const object of objects) {
    for (const [name, value] of Object.entries(object)) {
      if (Object.hasOwn(whole, name)) throw new Error(`two edges say ${name}`);
      whole[name] = value;
    }
  }
  return whole;
}

/** References inside the document. */
export const ref = {
  channel: (name: string): JsonObject => ({ $ref: `#/channels/${name}` }),
  messageOf: (channel: string, name: string): JsonObject => ({ $ref: `#/channels/${channel}/messages/${name}` }),
  message: (name: string): JsonObject => ({ $ref: `#/components/messages/${name}` }),
  schema: (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` }),
  security: (name: string): JsonObject => ({ $ref: `#/components/securitySchemes/${name}` }),
  tag: (name: string): JsonObject => ({ $ref: `#/components/tags/${name}` }),
  server: (name: string): JsonObject => ({ $ref: `#/servers/${name}` }),
};

import type { JsonObject } from '../../domain/values.ts';
import { SERVICE_NAME, SERVICE_VERSION } from '../../operations/platform/system.ts';

/** Addresses at which clients reach the service; known once it listens. */
export interface Addresses {
  /** `http(s)://…`, without a path. */
  httpUrl: string;
  /** `mqtt(s)://…` */
  mqttUrl: string;
}

/** One edge's part of the document. Names must be unique across edges. */
export interface AsyncApiPart {
  tag: { name: string; description: string };
  servers(addresses: Addresses): JsonObject;
  channels: JsonObject;
  operations: JsonObject;
  messages: JsonObject;
  schemas: JsonObject;
  securitySchemes: JsonObject;
}

/**
 * The AsyncAPI 3.0 document: all messaging that is not request and response, from the declarations that validate it.
 */
export function asyncApi(parts: readonly AsyncApiPart[], addresses: Addresses): JsonObject {
  return {
    asyncapi: '3.0.0',
    info: {
      title: `${SERVICE_NAME} events`,
      version: SERVICE_VERSION,
      description:
        'Messages between devices and the service over MQTT, and updates to clients over WebSocket. Operations are ' +
        'described from the view of the service: it *receives* what a client sends. Times are integer epoch ' +
        'milliseconds, ids are UUIDs. The REST API is described in `/openapi.json`.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
      externalDocs: { description: 'The REST API', url: `${addresses.httpUrl}/docs` },
      tags: parts.map(({ tag }) => ref.tag(tag.name)),
    },
    defaultContentType: 'application/json',
    servers: merge(parts.map((part) => part.servers(addresses))),
    channels: merge(parts.map((part) => part.channels)),
    operations: merge(parts.map((part) => part.operations)),
    components: {
      messages: merge(parts.map((part) => part.messages)),
      schemas: merge(parts.map((part) => part.schemas)),
      securitySchemes: merge(parts.map((part) => part.securitySchemes)),
      tags: Object.fromEntries(parts.map(({ tag }) => [tag.name, { ...tag }])),
    },
  };
}

function merge(objects: readonly JsonObject[]): JsonObject {
  const result: JsonObject = {};
  for (const object of objects) {
    for (const [name, value] of Object.entries(object)) {
      if (Object.hasOwn(result, name)) throw new Error(`duplicate AsyncAPI name: ${name}`);
      result[name] = value;
    }
  }
  return result;
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

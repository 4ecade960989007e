import { Ajv2020 } from 'ajv/dist/2020.js';
import type { JsonObject } from '../../src/domain/values.ts';
import { asyncApiDocument } from '../../src/main/asyncapi-document.ts';

const addresses = { apiBaseUrl: 'http://127.0.0.1:8080/v1', mqttUrl: 'mqtt://127.0.0.1:1883' };

interface Channel {
  address: string;
  description: string;
  parameters: object;
  messages: object;
}
interface AsyncApiSpec {
  asyncapi: string;
  channels: Record<string, Channel>;
  operations: Record<string, { messages: object[]; reply?: { messages: object[] } }>;
  components: {
    messages: Record<string, { payload: object; examples: { payload: JsonObject; summary?: string }[] }>;
    schemas: Record<string, { description?: string }>;
    securitySchemes: Record<string, { description: string }>;
  };
}
/** The document as an external client reads it. */
export const asyncApiSpec = asyncApiDocument(addresses)() as unknown as AsyncApiSpec;

const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
ajv.addSchema({ $id: 'events', components: asyncApiSpec.components }, 'events');

/** A validator for one of the document's messages. */
export function messageValidator(name: string) {
  const payload = JSON.stringify(asyncApiSpec.components.messages[name]?.payload);
  return ajv.compile(JSON.parse(payload.replaceAll('"#/components/', '"events#/components/')));
}

const validators = new Map<string, ReturnType<typeof messageValidator>>();

/** Null if the document describes this message, otherwise the violation. */
export function schemaViolation(message: JsonObject): string | null {
  const name = `${message.message_type ?? message.type}`;
  if (!Object.hasOwn(asyncApiSpec.components.messages, name)) return `undocumented message ${name}`;
  const validate = validators.get(name) ?? messageValidator(name);
  validators.set(name, validate);
  return validate(message) ? null : `${name}: ${JSON.stringify(validate.errors)}`;
}

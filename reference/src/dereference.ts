export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

/**
 * An AsyncAPI document with every `$ref` within it replaced by its target, in the form in which AsyncAPI's parser returns
 * it. The document has no circular references.
 */
export function dereference(document: JsonObject): JsonObject {
  const resolved = resolve(document, document) as JsonObject;
  return { ...resolved, 'x-parser-spec-parsed': true, 'x-parser-api-version': 3 };
}

function resolve(value: Json, document: JsonObject): Json {
  if (Array.isArray(value)) return value.map((item) => resolve(item, document));
  if (typeof value !== 'object' || value === null) return value;
  if (typeof value.$ref === 'string') return follow(value.$ref, document);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, resolve(member, document)]));
}

function follow(ref: string, document: JsonObject): Json {
  const path = ref.replace(/^#\//, '').split('/');
  const target = path.reduce<Json>((at, name) => (at as JsonObject)[name] ?? null, document);
  const resolved = resolve(target, document);
  const [, kind, name] = path;
  // The parser names schemas and messages in this way.
  if (kind === 'schemas') return { ...(resolved as JsonObject), 'x-parser-schema-id': name as string };
  if (kind === 'messages') return { ...(resolved as JsonObject), 'x-parser-message-name': name as string };
  return resolved;
}

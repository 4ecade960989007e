import { isObject } from '../../../domain/json/value.ts';
import type { Json, JsonObject } from '../../../domain/values.ts';
import { html, inline, type Markup, prose } from './markup.ts';

/** The last segment of a `$ref`; empty for any other value. */
export const refName = (value: Json | undefined): string =>
  isObject(value) && typeof value.$ref === 'string' ? (value.$ref.split('/').at(-1) ?? '') : '';

export function schemaCard(name: string, schema: JsonObject): Markup {
  return html`<section class="card" aria-labelledby="schema-${name}">
<h3 id="schema-${name}">${name}</h3>
${typeof schema.description === 'string' && prose(schema.description)}
${fieldsOf(schema)}
</section>`;
}

/** The members of an object schema as a list, which also fits narrow screens. References to `known` schemas are expanded. */
export function fieldsOf(schema: JsonObject, known: JsonObject = {}): Markup {
  const members = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  if (members.length === 0) return html``;
  return html`<dl class="fields">${members.map(([name, member]) => fieldOf(name, member, { required: required.includes(name), known }))}</dl>`;
}

function fieldOf(name: string, member: Json, { required, known }: { required: boolean; known: JsonObject }): Markup {
  const schema = isObject(member) ? member : {};
  const inside = known[refName(schema)];
  return html`<dt><code>${name}</code> <span class="quiet">${typeOf(schema)}${required ? ', required' : ''}</span></dt>
${typeof schema.description === 'string' && html`<dd>${inline(schema.description)}</dd>`}
${isObject(inside) && isObject(inside.properties) && html`<dd>${fieldsOf(inside)}</dd>`}
`;
}

function typeOf(schema: JsonObject): Markup {
  const name = refName(schema);
  if (name !== '') return html`<a href="#schema-${name}">${name}</a>`;
  if ('const' in schema) return html`<code>${`${schema.const}`}</code>`;
  if (Array.isArray(schema.enum))
    return html`${schema.enum.map((value, index) => html`${index > 0 && ' | '}<code>${`${value}`}</code>`)}`;
  if (schema.type === 'array' && isObject(schema.items)) return html`list of ${typeOf(schema.items)}`;
  const kind = typeof schema.type === 'string' ? schema.type : 'any JSON';
  return html`${typeof schema.format === 'string' ? schema.format : kind}${limitsOf(schema)}`;
}

function limitsOf({ minimum, maximum, exclusiveMinimum, maxLength, default: defaultValue }: JsonObject): string {
  const limits = [
    ...(typeof minimum === 'number' ? [`from ${minimum}`] : []),
    ...(typeof exclusiveMinimum === 'number' ? [`over ${exclusiveMinimum}`] : []),
    ...(typeof maximum === 'number' && maximum < Number.MAX_SAFE_INTEGER ? [`to ${maximum}`] : []),
    ...(typeof maxLength === 'number' ? [`at most ${maxLength} characters`] : []),
    ...(defaultValue === undefined ? [] : [`default ${defaultValue}`]),
  ];
  return limits.map((one) => `, ${one}`).join('');
}

import { isObject } from '../../../domain/json/value.ts';
import type { Json, JsonObject } from '../../../domain/values.ts';
import { renderPage } from './frame.ts';
import { html, inline, type Markup, prose } from './markup.ts';
import { fieldsOf, refName, schemaCard } from './schema.ts';

/** Renders the AsyncAPI document as a page without scripts. */
export function eventsPage(document: JsonObject): string {
  const info = at(document, 'info');
  const tags = Object.values(at(document, 'components', 'tags')) as JsonObject[];
  const channels = Object.entries(at(document, 'channels')) as [string, JsonObject][];
  const schemas = Object.entries(at(document, 'components', 'schemas')) as [string, JsonObject][];
  const body = html`<main class="events" id="content">
<h1>${textOf(info.title)}</h1>
${prose(textOf(info.description))}
<nav aria-label="On this page"><ul class="contents">
<li><a href="#servers">Servers and authentication</a></li>
${channels.map(([name, { title }]) => html`<li><a href="#channel-${name}">${textOf(title)}</a></li>\n`)}
<li><a href="#schemas">Schemas</a></li>
</ul></nav>
<h2 id="servers">Servers and authentication</h2>
${Object.entries(at(document, 'servers')).map(([name, server]) => serverCard(document, name, server as JsonObject))}
${tags.map(
  (tag) => html`<h2>${textOf(tag.name)}</h2>
${prose(textOf(tag.description))}
${channels.filter(([, channel]) => isTagged(channel, tag.name)).map(([name, channel]) => channelCard(document, name, channel))}`,
)}
<h2 id="schemas">Schemas</h2>
${schemas.map(([name, schema]) => schemaCard(name, schema))}
</main>`;
  return renderPage({ path: '/docs/events', title: `${textOf(info.title)}`, styles: ['style.css'], body });
}

function serverCard(document: JsonObject, name: string, server: JsonObject): Markup {
  const url = `${textOf(server.protocol)}://${textOf(server.host)}${textOf(server.pathname)}`;
  const security = Array.isArray(server.security) ? server.security.map((one) => refName(one)) : [];
  return html`<section class="card" aria-labelledby="server-${name}">
<h3 id="server-${name}"><code>${url}</code></h3>
${prose(textOf(server.description))}
${security.map((scheme) => html`<details><summary>Authentication: ${scheme}</summary>${prose(textOf(at(document, 'components', 'securitySchemes', scheme).description))}</details>`)}
</section>`;
}

function channelCard(document: JsonObject, name: string, channel: JsonObject): Markup {
  const operations = (Object.values(at(document, 'operations')) as JsonObject[]).filter(
    (operation) => refName(operation.channel) === name,
  );
  const query = at(channel, 'bindings', 'ws', 'query');
  const messages = Object.keys(at(channel, 'messages'));
  return html`<section class="card" aria-labelledby="channel-${name}">
<h3 id="channel-${name}"><code>${textOf(channel.address)}</code></h3>
${prose(textOf(channel.description))}
${'parameters' in channel && html`<p class="quiet">${Object.keys(at(channel, 'parameters')).map((parameter) => html`<code>{${parameter}}</code> ${inline(textOf(at(channel, 'parameters', parameter).description))}. `)}</p>`}
${Object.keys(query).length > 0 && html`<h4>Query</h4>${fieldsOf(query)}`}
<ul>${operations.map((operation) => operationLine(operation))}</ul>
${messages.map((message) => messagePart(document, message, operations))}
</section>`;
}

type Direction = 'in' | 'out';

function directionOf(operations: readonly JsonObject[], message: string): Direction {
  const sent = operations.some(
    ({ action, messages, reply }) =>
      (action === 'send' && namesIn(messages).includes(message)) ||
      (action === 'receive' && isObject(reply) && namesIn(reply.messages).includes(message)),
  );
  const received = operations.some(
    ({ action, messages }) => action === 'receive' && namesIn(messages).includes(message),
  );
  return sent && !received ? 'out' : 'in';
}

const namesIn = (messages: Json | undefined): string[] => (Array.isArray(messages) ? messages.map(refName) : []);

function operationLine({ action, title, summary, reply }: JsonObject): Markup {
  const replies = isObject(reply) ? namesIn(reply.messages) : [];
  return html`<li><span class="way ${action === 'send' ? 'out' : 'in'}">${action === 'send' ? 'service sends' : 'service receives'}</span>
<strong>${textOf(title)}</strong>: ${inline(textOf(summary))}
${replies.length > 0 && html`<span class="quiet">Reply: ${replies.join(' or ')}.</span>`}</li>`;
}

function messagePart(document: JsonObject, name: string, operations: readonly JsonObject[]): Markup {
  const direction = directionOf(operations, name);
  const message = at(document, 'components', 'messages', name);
  const [example] = Array.isArray(message.examples) ? (message.examples as JsonObject[]) : [];
  return html`<h4 id="message-${name}"><code>${textOf(message.name)}</code>
<span class="way ${direction}">${direction === 'in' ? '→ service' : 'service →'}</span></h4>
${!operations.some(({ summary }) => summary === message.summary) && prose(textOf(message.summary))}
${'description' in message && prose(textOf(message.description))}
${payloadOf(document, message.payload)}
${example !== undefined && exampleOf(example, name)}`;
}

function exampleOf({ payload, summary }: JsonObject, name: string): Markup {
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload, null, 2);
  return html`<details><summary>Example of ${name}</summary>
${typeof summary === 'string' && html`<p class="quiet">${inline(summary)}</p>`}
<pre tabindex="0" aria-label="Example of ${name}">${text}</pre></details>`;
}

/** The message's specific fields, with a link to the envelope that all messages share. */
function payloadOf(document: JsonObject, payload: Json | undefined): Markup {
  if (!isObject(payload)) return html``;
  if (Array.isArray(payload.allOf)) return html`${payload.allOf.map((part) => payloadOf(document, part))}`;
  const name = refName(payload);
  if (name === 'Envelope')
    return html`<p class="quiet">In the signed <a href="#schema-Envelope">Envelope</a>, with the payload:</p>`;
  if (name !== '') return fieldsOf(at(document, 'components', 'schemas', name));
  if ('const' in payload) return html``;
  return fieldsOf(payload, at(document, 'components', 'schemas'));
}

const isTagged = ({ tags }: JsonObject, name: Json | undefined): boolean =>
  Array.isArray(tags) && tags.some((tag) => refName(tag) === name);

const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

/** The object at a path of names; empty if there is none. */
function at(from: JsonObject, ...names: readonly string[]): JsonObject {
  let found: Json | undefined = from;
  for (const name of names) found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  return isObject(found) ? found : {};
}

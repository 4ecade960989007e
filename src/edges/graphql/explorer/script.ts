/** Runs in the explorer's page. All that comes from outside is set as text. */
export const SCRIPT = `const part = (id) => document.getElementById(id);
const endpoint = '/graphql';
let socket = null;

function say(text, wrong = false) {
  part('status').className = wrong ? 'wrong' : 'quiet';
  part('status').textContent = text;
}

const show = (value) => {
  part('result').textContent = JSON.stringify(value, null, 2);
};

/** A session's change needs its CSRF token; a credential of one's own needs none. */
async function headersFor(credential) {
  const headers = { accept: 'application/json', 'content-type': 'application/json' };
  if (credential !== '') return { ...headers, authorization: 'Bearer ' + credential };
  const response = await fetch('/v1/auth/csrf', { credentials: 'same-origin' });
  return response.ok ? { ...headers, 'x-csrf-token': (await response.json()).csrf_token } : headers;
}

async function ask(query, variables, credential) {
  const headers = await headersFor(credential);
  const body = JSON.stringify({ query, variables });
  const response = await fetch(endpoint, { method: 'POST', headers, body, credentials: 'same-origin' });
  return { status: response.status, body: await response.json() };
}

/** A session's cookie opens no WebSocket: a ticket stands for it. */
async function credentialForSocket(credential) {
  if (credential !== '') return credential;
  const headers = await headersFor('');
  const response = await fetch('/ws/ticket', { method: 'POST', headers, body: '{}', credentials: 'same-origin' });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer.ticket;
}

async function subscribe(query, variables, credential) {
  const authorization = 'Bearer ' + (await credentialForSocket(credential));
  const told = [];
  const opened = new WebSocket(location.origin.replace(/^http/, 'ws') + endpoint, 'graphql-transport-ws');
  const send = (message) => opened.send(JSON.stringify(message));
  socket = opened;
  part('stop').disabled = false;
  opened.onopen = () => send({ type: 'connection_init', payload: { Authorization: authorization } });
  opened.onclose = ({ code, reason }) => {
    // Another one may be listened to by now.
    if (socket !== opened) return;
    socket = null;
    part('stop').disabled = true;
    say('The connection is closed: ' + code + ' ' + reason, code !== 1000);
  };
  opened.onmessage = ({ data }) => {
    if (socket !== opened) return;
    const message = JSON.parse(data);
    if (message.type === 'connection_ack') {
      say('Listening.');
      send({ id: '1', type: 'subscribe', payload: { query, variables } });
    } else if (message.type === 'ping') {
      send({ type: 'pong' });
    } else if (message.type === 'next') {
      told.unshift(message.payload);
      told.length = Math.min(told.length, 50);
      show(told);
    } else if (message.type === 'error') {
      stop();
      show({ errors: message.payload });
      say('Refused.', true);
    } else if (message.type === 'complete') {
      stop();
      say('It is complete.');
    }
  };
}

/** What is listened to tells nothing more, however long its connection takes to close. */
function stop() {
  socket?.close(1000);
  socket = null;
  part('stop').disabled = true;
}

async function run() {
  const query = part('query').value;
  const credential = part('credential').value.trim();
  let variables;
  try {
    variables = JSON.parse(part('variables').value || '{}');
  } catch {
    return say('The variables are no JSON.', true);
  }
  part('run').disabled = true;
  stop();
  say('Asking …');
  try {
    if (/^\\s*subscription\\b/m.test(query)) return await subscribe(query, variables, credential);
    const started = performance.now();
    const { status, body } = await ask(query, variables, credential);
    show(body);
    say(status + ' after ' + Math.round(performance.now() - started) + ' ms', status >= 400 || 'errors' in body);
  } catch (fault) {
    say(String(fault.message), true);
  } finally {
    part('run').disabled = false;
  }
}

const INTROSPECTION = \`{ __schema { types { kind name description
  fields { name description type { ...T } args { name description type { ...T } } }
  inputFields { name description type { ...T } }
  enumValues { name }
  possibleTypes { name }
} } }
fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }\`;

const typeText = ({ kind, name, ofType }) =>
  kind === 'NON_NULL' ? typeText(ofType) + '!' : kind === 'LIST' ? '[' + typeText(ofType) + ']' : name;

const element = (tag, text, ...inside) => {
  const made = document.createElement(tag);
  if (text !== '') made.textContent = text;
  made.append(...inside);
  return made;
};

function fieldText({ name, args = [], type }) {
  const given = args.map((one) => one.name + ': ' + typeText(one.type)).join(', ');
  return name + (given === '' ? '' : '(' + given + ')') + ': ' + typeText(type);
}

function typeCard(type) {
  const fields = type.fields ?? type.inputFields ?? [];
  const list = element('dl', '');
  for (const field of fields) {
    list.append(element('dt', '', element('code', fieldText(field))), element('dd', field.description ?? ''));
  }
  const words = [...(type.enumValues ?? []), ...(type.possibleTypes ?? [])].map(({ name }) => name).join(' | ');
  const card = element('details', '', element('summary', '', element('code', type.name)));
  if (type.description) card.append(element('p', type.description));
  if (words !== '') card.append(element('p', '', element('code', words)));
  card.append(list);
  card.dataset.words = [type.name, ...fields.map(({ name }) => name)].join(' ').toLowerCase();
  return card;
}

async function loadSchema() {
  const { body } = await ask(INTROSPECTION, {}, part('credential').value.trim());
  if (body.data === undefined) return say(body.detail ?? body.errors?.[0]?.message ?? 'There is no schema.', true);
  const types = body.data.__schema.types.filter(({ name }) => !name.startsWith('__'));
  part('types').replaceChildren(...types.map(typeCard));
  find();
}

function find() {
  const wanted = part('find').value.trim().toLowerCase();
  for (const card of part('types').children) card.hidden = !card.dataset.words.includes(wanted);
}

part('asking').addEventListener('submit', (event) => {
  event.preventDefault();
  run();
});
part('asking').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run();
});
part('stop').addEventListener('click', () => {
  stop();
  say('Stopped.');
});
part('load').addEventListener('click', () => loadSchema().catch((fault) => say(String(fault.message), true)));
part('find').addEventListener('input', find);
`;

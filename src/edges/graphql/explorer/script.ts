/** Script of the explorer's page. Data from the service is inserted as text, never as HTML. */
export const SCRIPT = `const part = (id) => document.getElementById(id);
const endpoint = '/graphql';
let socket = null;

function setStatus(text, wrong = false) {
  part('status').className = wrong ? 'wrong' : 'quiet';
  part('status').textContent = text;
}

const show = (value) => {
  part('result').textContent = JSON.stringify(value, null, 2);
};

/** With the browser's session a mutation needs the CSRF token; with a token or API key it does not. */
async function headersFor(credential) {
  const headers = { accept: 'application/json', 'content-type': 'application/json' };
  if (credential !== '') return { ...headers, authorization: 'Bearer ' + credential };
  const response = await fetch('/v1/auth/csrf', { credentials: 'same-origin' });
  return response.ok ? { ...headers, 'x-csrf-token': (await response.json()).csrf_token } : headers;
}

async function sendRequest(query, variables, credential) {
  const headers = await headersFor(credential);
  const body = JSON.stringify({ query, variables });
  const response = await fetch(endpoint, { method: 'POST', headers, body, credentials: 'same-origin' });
  return { status: response.status, body: await response.json() };
}

/** The session cookie is not accepted for WebSockets: the page exchanges it for a ticket. */
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
  const updates = [];
  const opened = new WebSocket(location.origin.replace(/^http/, 'ws') + endpoint, 'graphql-transport-ws');
  const send = (message) => opened.send(JSON.stringify(message));
  socket = opened;
  part('stop').disabled = false;
  opened.onopen = () => send({ type: 'connection_init', payload: { Authorization: authorization } });
  opened.onclose = ({ code, reason }) => {
    // A newer subscription may have replaced this one.
    if (socket !== opened) return;
    socket = null;
    part('stop').disabled = true;
    setStatus('Connection closed: ' + code + ' ' + reason, code !== 1000);
  };
  opened.onmessage = ({ data }) => {
    if (socket !== opened) return;
    const message = JSON.parse(data);
    if (message.type === 'connection_ack') {
      setStatus('Subscribed.');
      send({ id: '1', type: 'subscribe', payload: { query, variables } });
    } else if (message.type === 'ping') {
      send({ type: 'pong' });
    } else if (message.type === 'next') {
      updates.unshift(message.payload);
      updates.length = Math.min(updates.length, 50);
      show(updates);
    } else if (message.type === 'error') {
      stop();
      show({ errors: message.payload });
      setStatus('Refused.', true);
    } else if (message.type === 'complete') {
      stop();
      setStatus('Completed.');
    }
  };
}

/** Updates are ignored from here on, even if the connection takes a while to close. */
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
    return setStatus('The variables are not valid JSON.', true);
  }
  part('run').disabled = true;
  stop();
  setStatus('Running …');
  try {
    if (/^\\s*subscription\\b/m.test(query)) return await subscribe(query, variables, credential);
    const started = performance.now();
    const { status, body } = await sendRequest(query, variables, credential);
    show(body);
    setStatus(status + ' after ' + Math.round(performance.now() - started) + ' ms', status >= 400 || 'errors' in body);
  } catch (fault) {
    setStatus(String(fault.message), true);
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
  const node = document.createElement(tag);
  if (text !== '') node.textContent = text;
  node.append(...inside);
  return node;
};

function fieldText({ name, args = [], type }) {
  const argList = args.map((one) => one.name + ': ' + typeText(one.type)).join(', ');
  return name + (argList === '' ? '' : '(' + argList + ')') + ': ' + typeText(type);
}

function typeCard(type) {
  const fields = type.fields ?? type.inputFields ?? [];
  const list = element('dl', '');
  for (const field of fields) {
    list.append(element('dt', '', element('code', fieldText(field))), element('dd', field.description ?? ''));
  }
  const values = [...(type.enumValues ?? []), ...(type.possibleTypes ?? [])].map(({ name }) => name).join(' | ');
  const card = element('details', '', element('summary', '', element('code', type.name)));
  if (type.description) card.append(element('p', type.description));
  if (values !== '') card.append(element('p', '', element('code', values)));
  card.append(list);
  card.dataset.search = [type.name, ...fields.map(({ name }) => name)].join(' ').toLowerCase();
  return card;
}

async function loadSchema() {
  const { body } = await sendRequest(INTROSPECTION, {}, part('credential').value.trim());
  if (body.data === undefined) return setStatus(body.detail ?? body.errors?.[0]?.message ?? 'The schema is not available.', true);
  const types = body.data.__schema.types.filter(({ name }) => !name.startsWith('__'));
  part('types').replaceChildren(...types.map(typeCard));
  find();
}

function find() {
  const wanted = part('find').value.trim().toLowerCase();
  for (const card of part('types').children) card.hidden = !card.dataset.search.includes(wanted);
}

part('request-form').addEventListener('submit', (event) => {
  event.preventDefault();
  run();
});
part('request-form').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run();
});
part('stop').addEventListener('click', () => {
  stop();
  setStatus('Stopped.');
});
part('load').addEventListener('click', () => loadSchema().catch((fault) => setStatus(String(fault.message), true)));
part('find').addEventListener('input', find);
`;

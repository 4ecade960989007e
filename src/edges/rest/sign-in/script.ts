/** Runs in the page that approves a command line. It asks the REST API, as the person's cookie session. */
export const SCRIPT = `const part = (id) => document.getElementById(id);
const status = part('status');

function say(text, kind = '') {
  status.className = kind;
  status.textContent = text;
}

async function ask(method, path, body, headers = {}) {
  const init = { method, headers: { accept: 'application/json', ...headers }, credentials: 'same-origin' };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers['content-type'] = 'application/json';
  }
  const response = await fetch(new URL(path, location.href), init);
  const text = await response.text();
  return { ok: response.ok, status: response.status, body: text === '' ? {} : JSON.parse(text) };
}

async function change(path, body) {
  const { body: answer } = await ask('GET', 'csrf');
  return ask('POST', path, body, { 'x-csrf-token': answer.csrf_token });
}

/** Only one of the page's sections is there at a time. */
function show(id) {
  for (const section of document.querySelectorAll('main > section')) section.hidden = section.id !== id;
}

async function lookWhoIsThere() {
  const { ok, status: code, body } = await ask('GET', 'me');
  if (!ok && code !== 401) throw new Error(body.detail);
  show(ok ? 'approve' : 'sign-in');
  if (!ok) return;
  part('who').textContent = body.user.email ?? body.user.ext_id;
  part('user-code').focus();
}

/** What a form does; meanwhile it cannot be sent again. */
function onSubmit(id, work) {
  const form = part(id);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = form.querySelector('button');
    button.disabled = true;
    say('');
    try {
      await work();
    } catch (error) {
      say(error.message || 'The service does not answer. Try again.', 'bad');
    } finally {
      button.disabled = false;
    }
  });
}

onSubmit('token-form', async () => {
  const field = part('token');
  const { ok, body } = await ask('POST', 'session', { token: field.value.trim() });
  field.value = '';
  if (ok) return lookWhoIsThere();
  say(body.code === 'UNAUTHENTICATED' ? 'This token is not valid, or no longer.' : body.detail, 'bad');
  field.focus();
});

onSubmit('approve-form', async () => {
  const field = part('user-code');
  const code = new URLSearchParams(location.search).get('code');
  const { ok, status: answered, body } = await change('cli/approve', { code, user_code: field.value });
  if (ok) {
    show('');
    say('Done. The command line is signed in; you can close this page.', 'good');
    return;
  }
  if (answered === 401) await lookWhoIsThere();
  if (body.code === 'GONE' || body.code === 'NOT_FOUND') show('');
  say(body.detail, 'bad');
  field.select();
});

onSubmit('sign-out-form', async () => {
  await change('logout');
  await lookWhoIsThere();
});

lookWhoIsThere().catch((error) => say(error.message || 'The service does not answer. Load this page again.', 'bad'));
`;

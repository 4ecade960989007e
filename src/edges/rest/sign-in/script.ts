/** Script of the page that approves a command line. It calls the REST API with the person's cookie session. */
export const SCRIPT = `const part = (id) => document.getElementById(id);
const status = part('status');

function setStatus(text, kind = '') {
  status.className = kind;
  status.textContent = text;
}

async function sendRequest(method, path, body, headers = {}) {
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
  const { body: response } = await sendRequest('GET', 'csrf');
  return sendRequest('POST', path, body, { 'x-csrf-token': response.csrf_token });
}

/** Shows one section of the page and hides the others. */
function show(id) {
  for (const section of document.querySelectorAll('main > section')) section.hidden = section.id !== id;
}

async function refreshIdentity() {
  const { ok, status: code, body } = await sendRequest('GET', 'me');
  if (!ok && code !== 401) throw new Error(body.detail);
  show(ok ? 'approve' : 'sign-in');
  if (!ok) return;
  part('who').textContent = body.user.email ?? body.user.ext_id;
  part('user-code').focus();
}

/** Runs the action when the form is submitted; the button is disabled until it is done. */
function onSubmit(id, work) {
  const form = part(id);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = form.querySelector('button');
    button.disabled = true;
    setStatus('');
    try {
      await work();
    } catch (error) {
      setStatus(error.message || 'The service does not respond. Try again.', 'bad');
    } finally {
      button.disabled = false;
    }
  });
}

onSubmit('token-form', async () => {
  const field = part('token');
  const { ok, body } = await sendRequest('POST', 'session', { token: field.value.trim() });
  field.value = '';
  if (ok) return refreshIdentity();
  setStatus(body.code === 'UNAUTHENTICATED' ? 'The token is invalid or expired.' : body.detail, 'bad');
  field.focus();
});

onSubmit('approve-form', async () => {
  const field = part('user-code');
  const code = new URLSearchParams(location.search).get('code');
  const { ok, status: httpStatus, body } = await change('cli/approve', { code, user_code: field.value });
  if (ok) {
    show('');
    setStatus('The command line is signed in. You can close this page.', 'good');
    return;
  }
  if (httpStatus === 401) await refreshIdentity();
  if (body.code === 'GONE' || body.code === 'NOT_FOUND') show('');
  setStatus(body.detail, 'bad');
  field.select();
});

onSubmit('sign-out-form', async () => {
  await change('logout');
  await refreshIdentity();
});

refreshIdentity().catch((error) => setStatus(error.message || 'The service does not respond. Reload the page.', 'bad'));
`;

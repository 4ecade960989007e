import { type FormEvent, useEffect, useId, useRef, useState } from 'react';
import { requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';
import { CONSOLE_PATH, SERVICE_PATH } from '../base.ts';
import { Note } from '../ui/feedback.tsx';
import { Mark } from '../ui/icons.tsx';
import './sign-in.css';

/** The code of a one-time link, if this page was opened by one; taken out of the address, where it would be kept. */
function takeCode(): string | null {
  const { hash, pathname, search } = location;
  const code = new URLSearchParams(hash.slice(1)).get('sign-in');
  if (code !== null) history.replaceState(history.state, '', pathname + search);
  return code;
}

/** Read once, before anything can be drawn twice. */
const linkCode = takeCode();
let unused = linkCode;

/** A link is for a browser in which nobody is: whoever is signed in stays so, and no later sign-out ends in its use. */
export const discardLink = (): void => {
  unused = null;
};

export function SignIn({ entered }: { entered(): Promise<void> }) {
  const field = useRef<HTMLInputElement>(null);
  const tokenId = useId();
  const [busy, setBusy] = useState(unused !== null);
  const [said, setSaid] = useState<string | null>(null);
  const provider = useProvider();

  async function open(token: string, wrong: string): Promise<void> {
    setBusy(true);
    setSaid(null);
    try {
      await requestJson('POST', '/v1/auth/session', { body: { token } });
      await entered();
    } catch (thrown) {
      const problem = thrown instanceof Problem ? thrown : null;
      setSaid(
        problem?.code === 'UNAUTHENTICATED'
          ? wrong
          : (problem?.message ?? 'Something went wrong. Load this page again.'),
      );
      setBusy(false);
      field.current?.focus();
    }
  }

  // biome-ignore lint/correctness/useExhaustiveDependencies: a link is used once
  useEffect(() => {
    const code = unused;
    unused = null;
    if (code !== null)
      void open(
        code,
        'This link was used already, or is older than ten minutes. Ask for another one, or sign in with a token.',
      );
  }, []);

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? '';
    if (field.current) field.current.value = '';
    if (token !== '') void open(token, 'This token is not valid, or no longer.');
  };

  return (
    <main className="sign-in">
      <div className="sign-in-panel">
        <Mark />
        <h1>Twinkeep console</h1>
        <p className="quiet">See what every device, command and plan is doing, and why.</p>
        {said !== null && <Note tone="bad">{said}</Note>}
        {provider && (
          <a
            className="button primary wide"
            href={`${SERVICE_PATH}/v1/auth/login?return_to=${encodeURIComponent(location.pathname.startsWith(CONSOLE_PATH) ? location.pathname + location.search : CONSOLE_PATH)}`}
          >
            Sign in with your identity provider
          </a>
        )}
        <form onSubmit={submit}>
          <label htmlFor={tokenId}>{provider ? 'Or with a token of yours' : 'A token of yours'}</label>
          <input
            id={tokenId}
            ref={field}
            type="password"
            autoComplete="off"
            spellCheck={false}
            maxLength={8192}
            required
            aria-describedby={`${tokenId}-help`}
          />
          <p id={`${tokenId}-help`} className="quiet small">
            Such as <code>twinkeep token --sub me</code> prints beside the service. It becomes a session of this browser
            and is kept nowhere.
          </p>
          <button type="submit" className={provider ? 'button wide' : 'button primary wide'} disabled={busy}>
            {busy ? 'Signing in …' : 'Sign in'}
          </button>
        </form>
      </div>
    </main>
  );
}

/** Whether there is an identity provider; asked outside the API, which needs nobody signed in. */
function useProvider(): boolean {
  const [provider, setProvider] = useState(false);
  useEffect(() => {
    fetch(`${CONSOLE_PATH}/about.json`)
      .then((response) => response.json())
      .then((about: { identity_provider: boolean }) => setProvider(about.identity_provider))
      .catch(() => {});
  }, []);
  return provider;
}

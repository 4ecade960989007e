import { type FormEvent, useEffect, useId, useRef, useState } from 'react';
import type { showSignInLink } from '../../../src/operations/identity/sign-in-links.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';
import { CONSOLE_PATH, SERVICE_PATH } from '../base.ts';
import { Note } from '../ui/feedback.tsx';
import { Mark } from '../ui/icons.tsx';
import './sign-in.css';

/** The code of a one-time link, if the page was opened by one. It is removed from the URL, so that the history does not keep it. */
function takeCode(): string | null {
  const { hash, pathname, search } = location;
  const code = new URLSearchParams(hash.slice(1)).get('sign-in');
  if (code !== null) history.replaceState(history.state, '', pathname + search);
  return code;
}

/** Read at module load, before React renders anything twice. */
let linkCode = takeCode();

/** The sign-in page, while it is shown. */
let openLink: ((code: string) => void) | null = null;

// A link that is pasted into the address of an open page changes only its hash. With a session it is not used.
addEventListener('hashchange', () => {
  const code = takeCode();
  if (code !== null) openLink?.(code);
});

/** Called when a session exists: a link must not replace the session, nor be used after a later sign-out. */
export const discardLink = (): void => {
  linkCode = null;
};

export function SignIn({ onSignedIn }: { onSignedIn(): Promise<void> }) {
  const field = useRef<HTMLInputElement>(null);
  const tokenId = useId();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const hasProvider = useProvider();

  async function signIn(token: string, invalidText: string): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      await requestJson('POST', '/v1/auth/session', { body: { token } });
      await onSignedIn();
    } catch (thrown) {
      const problem = thrown instanceof Problem ? thrown : null;
      setError(
        problem?.code === 'UNAUTHENTICATED' ? invalidText : (problem?.message ?? 'Sign-in failed. Reload the page.'),
      );
      setBusy(false);
      field.current?.focus();
    }
  }

  const link = useLink(setError);

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? '';
    if (field.current) field.current.value = '';
    if (token !== '') void signIn(token, 'The token is invalid or expired.');
  };

  return (
    <main className="sign-in">
      <div className="sign-in-panel">
        <Mark />
        <h1>Twinkeep console</h1>
        <p className="quiet">See what every device, command and plan is doing, and why.</p>
        {error !== null && <Note tone="bad">{error}</Note>}
        {link.holder !== null && (
          <LinkQuestion
            {...link.holder}
            busy={busy}
            confirm={(code) => {
              link.dismiss();
              void signIn(code, USED_LINK);
            }}
            cancel={link.dismiss}
          />
        )}
        {link.holder === null && hasProvider && (
          <a
            className="button primary wide"
            href={`${SERVICE_PATH}/v1/auth/login?return_to=${encodeURIComponent(location.pathname.startsWith(CONSOLE_PATH) ? location.pathname + location.search + location.hash : CONSOLE_PATH)}`}
          >
            Sign in with your identity provider
          </a>
        )}
        {/* One question at a time. The field is kept, as it takes the focus when a link is invalid. */}
        <form onSubmit={submit} hidden={link.holder !== null}>
          <label htmlFor={tokenId}>{hasProvider ? 'Or your token' : 'Your token'}</label>
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
            For example from <code>twinkeep token --sub me</code>, run on the server. It is exchanged for a browser
            session and not stored.
          </p>
          <button type="submit" className={hasProvider ? 'button wide' : 'button primary wide'} disabled={busy}>
            {busy ? 'Signing in …' : 'Sign in'}
          </button>
        </form>
      </div>
    </main>
  );
}

const USED_LINK = 'The link was already used or is older than 10 minutes. Create a new one, or sign in with a token.';

interface LinkHolder {
  code: string;
  /** Email or subject of the user whom the link signs in. */
  name: string;
}

/**
 * The user whom the link of this page signs in; null without a link. The link is used only when the user agrees: another
 * person may have sent it, to be shown what the user does in that person's account.
 */
function useLink(onError: (text: string | null) => void): { holder: LinkHolder | null; dismiss(): void } {
  const [holder, setHolder] = useState<LinkHolder | null>(null);
  const newest = useRef<string | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a link is read once
  useEffect(() => {
    const open = (code: string): void => {
      newest.current = code;
      setHolder(null);
      onError(null);
      requestJson<ResponseBody<typeof showSignInLink>>('GET', '/v1/auth/link', {
        headers: { 'x-sign-in-link': code },
      }).then(
        ({ email, ext_id }) => {
          if (newest.current === code) setHolder({ code, name: email ?? ext_id });
        },
        (thrown: unknown) => {
          if (newest.current !== code) return;
          const problem = thrown instanceof Problem ? thrown : null;
          onError(problem?.code === 'NOT_FOUND' ? USED_LINK : (problem?.message ?? 'The link could not be checked.'));
        },
      );
    };
    openLink = open;
    if (linkCode !== null) open(linkCode);
    linkCode = null;
    return () => {
      openLink = null;
    };
  }, []);
  return { holder, dismiss: () => setHolder(null) };
}

function LinkQuestion({
  code,
  name,
  busy,
  confirm,
  cancel,
}: LinkHolder & { busy: boolean; confirm(code: string): void; cancel(): void }) {
  const titleId = useId();
  return (
    <section className="sign-in-link" aria-labelledby={titleId}>
      <h2 id={titleId}>
        Sign in as <bdi>{name}</bdi>?
      </h2>
      <p className="quiet small">
        Continue only if you created this link yourself. Otherwise you would use the account of another person.
      </p>
      <div className="actions">
        <button type="button" className="button" onClick={cancel}>
          Cancel
        </button>
        <button type="button" className="button primary" disabled={busy} onClick={() => confirm(code)}>
          Continue
        </button>
      </div>
    </section>
  );
}

/** Whether an identity provider is configured; read from a file outside the API, which needs no session. */
function useProvider(): boolean {
  const [hasProvider, setProvider] = useState(false);
  useEffect(() => {
    fetch(`${CONSOLE_PATH}/about.json`)
      .then((response) => response.json())
      .then((about: { identity_provider: boolean }) => setProvider(about.identity_provider))
      .catch(() => {});
  }, []);
  return hasProvider;
}

import type { ReactNode } from 'react';
import { Problem } from '../api/problem.ts';
import { Icon, type IconName } from './icons.tsx';
import type { Tone } from './tone.ts';
import './states.css';

// What stands where there is nothing to show (yet), and why something did not work. Each says what to do.

export type { Tone };

export const Loading = ({ what }: { what: string }) => (
  <p className="loading" role="status">
    <span className="spinner" aria-hidden="true" />
    {what} …
  </p>
);

export const Empty = ({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) => (
  <div className="empty">
    <Icon name={icon} />
    <p className="empty-title">{title}</p>
    {children !== undefined && <div className="quiet">{children}</div>}
  </div>
);

export const Note = ({ tone, children }: { tone: Tone; children: ReactNode }) => (
  <div className={`note ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
    {children}
  </div>
);

const advice: Partial<Record<Problem['code'], string>> = {
  UNREACHABLE: 'It is tried again by itself. Is the service running, and is this computer online?',
  FORBIDDEN_ROLE: 'Ask an admin of your tenant for a role that reaches further.',
  INSUFFICIENT_SCOPE: 'The token you signed in with is not for this: sign in with another one.',
  TENANT_SUSPENDED: 'The operators of this service can resume it.',
  MAINTENANCE: 'Reading works; changes will again once the maintenance is over.',
  RATE_LIMIT_EXCEEDED: 'It goes on by itself in a moment.',
  STORE_UNAVAILABLE: 'The database does not answer just now. It is tried again by itself.',
  NOT_FOUND: 'It may have been deleted, or belongs to another tenant.',
};

/** Where a change is not tried again by itself, and what somebody entered is still there. */
const adviceOnChange: Partial<Record<Problem['code'], string>> = {
  ...advice,
  UNREACHABLE: 'Nothing here is lost. Send it again once the service answers.',
  MAINTENANCE: 'Nothing here is lost. Send it again once the maintenance is over.',
  STORE_UNAVAILABLE: 'Nothing here is lost. The database does not answer just now: send it again in a moment.',
  CSRF_FAILED: 'You may have signed in anew in another window: load the page again.',
};

function changeAdvice({ code, retryAfterS }: Problem): string | undefined {
  if (code !== 'RATE_LIMIT_EXCEEDED') return adviceOnChange[code];
  return `Too much was asked for at once. Send it again in ${Math.max(1, retryAfterS ?? 1)} s.`;
}

/** In place of what could not be loaded. */
export function LoadError({ problem, retry }: { problem: Problem | null; retry?(): unknown }) {
  return (
    <div className="empty bad" role="alert">
      <Icon name="warning" />
      <p className="empty-title">{problem?.message ?? 'This could not be loaded.'}</p>
      <p className="quiet">{problem === null ? null : advice[problem.code]}</p>
      {retry !== undefined && (
        <button type="button" className="button" onClick={() => void retry()}>
          Try again
        </button>
      )}
    </div>
  );
}

/** After a change that was refused; nothing where there is no error. */
export function ChangeError({ error }: { error: Error | null }) {
  if (error === null) return null;
  const problem = error instanceof Problem ? error : null;
  return (
    <Note tone="bad">
      <p>{error.message}</p>
      {problem !== null && problem.errors.length > 0 && (
        <ul>
          {problem.errors.map(({ path, message }) => (
            <li key={`${path} ${message}`}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {problem !== null && changeAdvice(problem) !== undefined && <p className="quiet">{changeAdvice(problem)}</p>}
    </Note>
  );
}

/** A state in a word, with a sign that does not need its colour. */
export const Pill = ({ tone, children, title }: { tone: Tone; children: ReactNode; title?: string }) => (
  <span className={`pill ${tone}`} {...(title !== undefined && { title })}>
    {children}
  </span>
);

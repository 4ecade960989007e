import type { ReactNode } from 'react';
import { Problem } from '../api/problem.ts';
import { Icon, type IconName } from './icons.tsx';
import type { Tone } from './tone.ts';
import './feedback.css';

// Loading, empty and error states. Each one states what the user can do.

export type { Tone };

export const Loading = ({ what }: { what: string }) => (
  <p className="loading" role="status">
    <span className="spinner" aria-hidden="true" />
    {what} …
  </p>
);

interface EmptyProps {
  icon: IconName;
  title: string;
  /** The title is the heading of the page, because the page has no other content. */
  isWholePage?: boolean;
  children?: ReactNode;
}

export const Empty = ({ icon, title, isWholePage = false, children }: EmptyProps) => (
  <div className="empty">
    <Icon name={icon} />
    {isWholePage ? <h1 className="empty-title">{title}</h1> : <p className="empty-title">{title}</p>}
    {children !== undefined && <div className="quiet">{children}</div>}
  </div>
);

export const Note = ({ tone, children }: { tone: Tone; children: ReactNode }) => (
  <div className={`note ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
    {children}
  </div>
);

const advice: Partial<Record<Problem['code'], string>> = {
  UNREACHABLE: 'The request is retried automatically. Check that the service is running and this computer is online.',
  FORBIDDEN_ROLE: 'An admin of your tenant can give you a higher role.',
  INSUFFICIENT_SCOPE: 'The token that you signed in with lacks a scope. Sign in with another one.',
  KEY_RESTRICTED: 'The key is restricted to some places, devices or actions.',
  TENANT_SUSPENDED: 'The operators of this service can resume it.',
  MAINTENANCE: 'You can still view data. Changes are possible after the maintenance.',
  RATE_LIMIT_EXCEEDED: 'The request is retried automatically.',
  STORE_UNAVAILABLE: 'The database is not responding. The request is retried automatically.',
  NOT_FOUND: 'It may have been deleted, or belongs to another tenant.',
};

/** For changes, which are not retried automatically; the form keeps its input. */
const adviceOnChange: Partial<Record<Problem['code'], string>> = {
  ...advice,
  UNREACHABLE: 'Your input is kept. Send it again when the service responds.',
  MAINTENANCE: 'Your input is kept. Send it again after the maintenance.',
  STORE_UNAVAILABLE: 'Your input is kept. The database is not responding; send it again in a moment.',
  CONFIRMATION_FAILED:
    'It is listed under Confirmations until it expires. A user that the safety policy allows can approve it there.',
  CSRF_FAILED: 'You may have signed in again in another window. Reload the page.',
};

function changeAdvice({ code, retryAfterS }: Problem): string | undefined {
  if (code !== 'RATE_LIMIT_EXCEEDED') return adviceOnChange[code];
  return `Too many requests. Send it again in ${Math.max(1, retryAfterS ?? 1)} s.`;
}

interface LoadErrorProps {
  problem: Problem | null;
  /** The message is the heading of the page, because the page has no other content. */
  isWholePage?: boolean;
  retry?(): unknown;
}

/** Error state of a failed load. */
export function LoadError({ problem, isWholePage = false, retry }: LoadErrorProps) {
  const title = problem?.message ?? 'Loading failed.';
  return (
    <div className="empty bad" role="alert">
      <Icon name="warning" />
      {isWholePage ? <h1 className="empty-title">{title}</h1> : <p className="empty-title">{title}</p>}
      <p className="quiet">{problem === null ? null : advice[problem.code]}</p>
      {retry !== undefined && (
        <button type="button" className="button" onClick={() => void retry()}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Error of a failed change, or a note that it waits for a confirmation; renders nothing without an error. */
export function ChangeError({ error }: { error: Error | null }) {
  if (error === null) return null;
  const problem = error instanceof Problem ? error : null;
  if (problem?.code === 'DRY_RUN_REQUIRED')
    return (
      <Note tone="warn">
        Nothing was changed yet: the safety policy requires a confirmation. The change is listed under Confirmations.
      </Note>
    );
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

/** A status label, with a sign so that it does not depend on colour. */
export const Pill = ({ tone, children, title }: { tone: Tone; children: ReactNode; title?: string }) => (
  <span className={`pill ${tone}`} {...(title !== undefined && { title })}>
    {children}
  </span>
);

import { useState } from 'react';
import { useSession } from '../session.tsx';

// Failures on the home page that the user has dismissed, by the id of the command or plan. They stay in the browser.

/** The list is of failures of the last hour, so older ids are not needed. */
const MAX_KEPT = 200;

function storedIds(key: string): readonly string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    return Array.isArray(stored) ? stored.filter((id) => typeof id === 'string') : [];
  } catch {
    return [];
  }
}

export interface DismissedFailures {
  has(id: string): boolean;
  dismiss(id: string): void;
}

export function useDismissed(): DismissedFailures {
  const key = `twinkeep.dismissed.${useSession().me.user.id}`;
  const [ids, setIds] = useState(() => storedIds(key));
  return {
    has: (id) => ids.includes(id),
    dismiss(id) {
      const after = [...ids.filter((one) => one !== id), id].slice(-MAX_KEPT);
      setIds(after);
      try {
        localStorage.setItem(key, JSON.stringify(after));
      } catch {
        // Without storage a failure is dismissed until the page is closed.
      }
    },
  };
}

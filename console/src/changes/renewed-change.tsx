import type { Problem } from '../api/problem.ts';
import { Note } from '../ui/feedback.tsx';
import type { PendingChange } from './change-request.ts';

/** The new change request in the answer to a confirmation, if what it changes has changed; null for other errors. */
export const renewedChangeIn = (problem: Problem | null): PendingChange | null =>
  problem?.code === 'DRY_RUN_REQUIRED' ? (problem.body as PendingChange) : null;

export const ChangePreviewRenewed = () => (
  <Note tone="warn">
    The state has changed since the preview was made, and nothing was applied. This is a new preview.
  </Note>
);

import type { Problem } from '../api/problem.ts';
import { Note } from '../ui/feedback.tsx';
import type { PendingConfirmation } from './pending-confirmation.ts';

/** A preview, and the hash that a confirmation of it sends. */
export type ShownPreview = Pick<PendingConfirmation, 'preview' | 'preview_hash'>;

/** The new preview in the answer to a confirmation, if the effect of the command has changed; null for other errors. */
export const changedPreviewIn = (problem: Problem | null): ShownPreview | null =>
  problem?.code === 'DRY_RUN_REQUIRED' ? (problem.body as ShownPreview) : null;

export const PreviewChangedNote = () => (
  <Note tone="warn">The preview has changed since it was made, and nothing was sent. This is the new one.</Note>
);

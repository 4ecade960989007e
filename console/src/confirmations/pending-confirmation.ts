import type { ConfirmationPage } from '../api/answer-types.ts';

export type PendingConfirmation = ConfirmationPage['confirmations'][number];

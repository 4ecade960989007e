import type { ConfirmationListBody } from '../api/answer-types.ts';

export type PendingConfirmation = ConfirmationListBody['confirmations'][number];

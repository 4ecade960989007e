import type { ConfirmationPage } from '../api/shapes.ts';

export type Waiting = ConfirmationPage['confirmations'][number];

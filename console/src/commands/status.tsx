import type { CommandStatus } from '../../../src/domain/command.ts';
import { Pill } from '../ui/feedback.tsx';
import { humanize } from '../ui/text-format.ts';
import { toneOfStatus } from './stages.ts';

export const StatusPill = ({ status }: { status: CommandStatus }) => (
  <Pill tone={toneOfStatus[status]}>{humanize(status)}</Pill>
);

export const commandHref = (id: string): string => `/commands/${id}`;

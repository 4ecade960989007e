import type { CommandStatus } from '../../../src/domain/command.ts';
import { Pill } from '../ui/states.tsx';
import { plain } from '../ui/words.ts';
import { toneOfStatus } from './stages.ts';

export const StatusPill = ({ status }: { status: CommandStatus }) => (
  <Pill tone={toneOfStatus[status]}>{plain(status)}</Pill>
);

export const commandHref = (id: string): string => `/commands/${id}`;

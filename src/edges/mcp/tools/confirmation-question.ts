import type { DeviceContext } from '../../../machines/device-types.ts';
import type { Services } from '../../../operations/operation.ts';
import { sanitizeText } from '../sanitizer.ts';

/** A command that waits for confirmation. */
export interface CommandToConfirm {
  device_id: string;
  command_id: string;
  dry_run_token: string;
  expires_at: string;
}

const MAX_LISTED_DEVICES = 10;
const MAX_NAME = 60;

/** The question to the user before a critical command is sent: the action and its devices. */
export function confirmationQuestion(
  { actors }: Pick<Services, 'actors'>,
  action: string,
  waiting: readonly CommandToConfirm[],
): string {
  const names = waiting.slice(0, MAX_LISTED_DEVICES).map(({ device_id: id }) => {
    const name = actors.peek<DeviceContext>({ kind: 'device', id })?.snapshot.context.fixed.name ?? null;
    return name === null ? id : `“${oneLine(name)}” (${id})`;
  });
  const more = waiting.length - names.length;
  const listed = more > 0 ? [...names, `${more} more`] : names;
  return `The action ${oneLine(action)} is critical. Do it on ${listed.join(', ')}?`;
}

const oneLine = (text: string): string => sanitizeText(text, MAX_NAME).replace(/[\n\t\u2028\u2029]/g, ' ');

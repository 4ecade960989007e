import type { Json, Uuid } from '../../../domain/values.ts';
import type { CommandContext } from '../../../machines/command-types.ts';
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

type Actors = Pick<Services['actors'], 'peek' | 'read'>;

const MAX_LISTED = 10;
const MAX_NAME = 60;
const MAX_VALUE = 100;

/**
 * The question to the user before critical commands are sent: the action, its parameters, and for each device the
 * changes of the preview, one per line. All are read from the commands that wait, not from the request of the client.
 */
export async function confirmationQuestion(actors: Actors, waiting: readonly CommandToConfirm[]): Promise<string> {
  const found = await Promise.all(
    waiting.slice(0, MAX_LISTED).map(async (one) => ({ one, command: await readFixed(actors, one.command_id) })),
  );
  const [first] = found;
  const more = waiting.length - found.length;
  return [
    `The action ${quoted(first?.command?.action ?? 'unknown')} is critical and waits for your confirmation.`,
    ...lines('Parameter', first?.command?.params ?? {}, literal),
    ...found.flatMap(({ one, command }) => [
      `Device ${nameOf(actors, one.device_id)}`,
      ...lines('Change', command?.confirmation?.preview.changes ?? {}, changed).map((line) => `  ${line}`),
    ]),
    ...(more > 0 ? [`${more} more devices`] : []),
    `Do it on ${waiting.length === 1 ? 'this device' : `these ${waiting.length} devices`}?`,
  ].join('\n');
}

async function readFixed(actors: Actors, id: Uuid): Promise<CommandContext['fixed'] | null> {
  const ref = { kind: 'command', id } as const;
  const command = actors.peek<CommandContext>(ref) ?? (await actors.read<CommandContext>(ref));
  return command?.snapshot.context.fixed ?? null;
}

function nameOf(actors: Actors, id: Uuid): string {
  const name = actors.peek<DeviceContext>({ kind: 'device', id })?.snapshot.context.fixed.name ?? null;
  return name === null ? id : `${quoted(name)} (${id})`;
}

function lines<T>(kind: string, members: Readonly<Record<string, T>>, format: (value: T) => string): string[] {
  const all = Object.entries(members).map(([name, value]) => `${kind} ${quoted(name)}: ${format(value)}`);
  const more = all.length - MAX_LISTED;
  return more > 0 ? [...all.slice(0, MAX_LISTED), `${more} more`] : all;
}

const changed = ({ from, to }: { from: Json; to: Json }): string => `${literal(from)} → ${literal(to)}`;

/** Text in quotes that it cannot close, and without brackets, so that a name does not read as part of the question. */
const quoted = (text: string): string => `“${oneLine(text, MAX_NAME).replace(/["“”„‟«»()[\]{}]/g, '')}”`;

const literal = (value: Json | undefined): string => oneLine(JSON.stringify(value ?? null), MAX_VALUE);

const oneLine = (text: string, max: number): string => sanitizeText(text, max).replace(/[\n\t\u2028\u2029]/g, ' ');

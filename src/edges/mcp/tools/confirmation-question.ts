import type { ShapingMemory } from '../../../domain/memory.ts';
import type { Json, Uuid } from '../../../domain/values.ts';
import type { CommandContext } from '../../../machines/command-types.ts';
import type { DeviceContext } from '../../../machines/device-types.ts';
import type { PlanContext } from '../../../machines/plan-types.ts';
import type { Services } from '../../../operations/operation.ts';
import { memoriesOfStep } from '../../../operations/plans/shaping-memories.ts';
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
/** More than a request with the usual names can have: the client chooses their order, so none is left out silently. */
const MAX_PARAMETERS = 100;
const MAX_NAME = 60;
const MAX_VALUE = 100;

/**
 * The question to the user before critical commands are sent: the action, its parameters, and for each device the
 * memories that led to it and the changes of the preview, one per line. All are read from the commands that wait, not from the request of the client.
 * Null if a command cannot be shown.
 */
export async function confirmationQuestion(
  actors: Actors,
  waiting: readonly CommandToConfirm[],
): Promise<string | null> {
  const found = await Promise.all(
    waiting.slice(0, MAX_LISTED).map(async ({ device_id, command_id }) => {
      const command = await readFixed(actors, command_id);
      return { name: await nameOf(actors, device_id), command, memories: await memoriesOf(actors, command) };
    }),
  );
  const [first] = found;
  if (first?.command == null) return null;
  const { action, params } = first.command;
  const more = waiting.length - found.length;
  return [
    `The action ${quoted(action)} is critical and waits for your confirmation.`,
    ...lines('Parameter', params, { format: literal, max: MAX_PARAMETERS }),
    ...found.flatMap(({ name, command, memories }) => [
      `Device ${name}`,
      ...lines('  Firmware', { ...command?.confirmation?.preview.firmware }, { format: literal, max: MAX_LISTED }),
      ...memories.map(memoryLine),
      ...lines('  Change', command?.confirmation?.preview.changes ?? {}, { format: changed, max: MAX_LISTED }),
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

/** The memories that shaped the step of a plan's command. */
async function memoriesOf(actors: Actors, command: CommandContext['fixed'] | null): Promise<readonly ShapingMemory[]> {
  const plan = command?.origin.plan ?? null;
  if (plan === null) return [];
  const ref = { kind: 'plan', id: plan.id } as const;
  const found = actors.peek<PlanContext>(ref) ?? (await actors.read<PlanContext>(ref));
  return memoriesOfStep(found?.snapshot.context, plan).slice(0, MAX_LISTED);
}

const memoryLine = ({ id, kind, subject, source, adoptedBy }: ShapingMemory): string =>
  `  Because of the ${kind}${subject === null ? '' : ` ${quoted(subject)}`} (${id}) by ${source}${
    adoptedBy === null ? '' : `, adopted by user:${adoptedBy}`
  }`;

async function nameOf(actors: Actors, id: Uuid): Promise<string> {
  const ref = { kind: 'device', id } as const;
  const device = actors.peek<DeviceContext>(ref) ?? (await actors.read<DeviceContext>(ref));
  const name = device?.snapshot.context.fixed.name ?? null;
  return name === null ? id : `${quoted(name)} (${id})`;
}

function lines<T>(
  kind: string,
  members: Readonly<Record<string, T>>,
  { format, max }: { format(value: T): string; max: number },
): string[] {
  const all = Object.entries(members).map(([name, value]) => `${kind} ${quoted(name)}: ${format(value)}`);
  const more = all.length - max;
  return more > 0 ? [...all.slice(0, max), `${kind}: ${more} more are not shown`] : all;
}

const changed = ({ from, to }: { from: Json; to: Json }): string => `${literal(from)} → ${literal(to)}`;

/** Quotes, brackets and the arrow of a change: without them a text cannot look like a part of the question. */
const MARKS = /[["″＂〝〞→\p{Pi}\p{Pf}\p{Ps}\p{Pe}]--[’]]/gv;

const quoted = (text: string): string => {
  const { shown, note } = cut(oneLine(text).replace(MARKS, ''), MAX_NAME);
  return `“${shown}”${note}`;
};

function literal(value: Json | undefined): string {
  const text = typeof value === 'string' ? value.replace(MARKS, '').replace(/ {2,}/g, ' ') : value;
  const { shown, note } = cut(oneLine(JSON.stringify(text ?? null)), MAX_VALUE);
  return `${shown}${note}`;
}

/** The first `max` characters, and a note with the whole length if there are more. */
function cut(text: string, max: number): { shown: string; note: string } {
  if (text.length <= max) return { shown: text, note: '' };
  const note = ` (cut: the first ${max} of ${text.length} characters)`;
  return { shown: `${text.slice(0, max).toWellFormed()}…`, note };
}

const oneLine = (text: string): string => sanitizeText(text, text.length).replace(/[\n\t\u2028\u2029]/g, ' ');

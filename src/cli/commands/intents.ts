import type { Command } from 'commander';
import { parseAssignments } from '../argument-parsers.ts';
import { BATCH_DESCRIPTION, type BatchResult, showBatch } from '../batch-results.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { colorStatus } from '../print.ts';

interface IntentOutcome {
  status: 'SUCCESS' | 'PARTIAL' | 'REJECTED' | 'PENDING';
  mode: string;
  results: BatchResult[];
}

/** Intents with explicit targets; `goal` and `plans run` send the others. */
export function addIntents(program: Command, io: Io): void {
  const intents = program
    .command('intents')
    .summary('send intents for a device, room or group')
    .description(
      'Sends intents, as agents and voice assistants do (POST /v1/intent). `twinkeep goal` sends a goal in natural language.',
    )
    .addHelpText('after', '\nExample:\n  twinkeep intents device "Desk lamp" set_brightness level=40');
  intents
    .command('device <device> <action> [name=value...]')
    .description(`Commands a device (device.control). ${BATCH_DESCRIPTION}`)
    .action(async (device: string, action: string, assignments: string[], _options, command: Command) => {
      const client = createCliContext(io, command);
      const target = { device_id: await client.resolve('device', device) };
      await sendIntent(client, 'device.control', { ...target, action, params: parseAssignments(assignments) });
    });
  intents
    .command('room <room> <action> [name=value...]')
    .description(`Commands the devices in a room (room.control). ${BATCH_DESCRIPTION}`)
    .option('--category <name>', 'only devices of this category, such as light')
    .action(
      async (
        room: string,
        action: string,
        assignments: string[],
        { category }: { category?: string },
        command: Command,
      ) => {
        const client = createCliContext(io, command);
        const target = {
          room_id: await client.resolve('room', room),
          ...(category !== undefined && { capability: category }),
        };
        await sendIntent(client, 'room.control', { ...target, action, params: parseAssignments(assignments) });
      },
    );
  intents
    .command('group <group> <action> [name=value...]')
    .description(`Commands the devices of a group (group.control). ${BATCH_DESCRIPTION}`)
    .action(async (group: string, action: string, assignments: string[], _options, command: Command) => {
      const client = createCliContext(io, command);
      const params = parseAssignments(assignments);
      await client.withReference('group', group, (slug) =>
        sendIntent(client, 'group.control', { slug, action, params }),
      );
    });
}

async function sendIntent(client: CliContext, type: string, payload: object): Promise<void> {
  const outcome = await client.api.post<IntentOutcome>('/v1/intent', { type, payload });
  await showBatch(client, outcome, {
    printHead({ status, mode }) {
      const { dim } = client.io.outColors;
      client.io.out(`${colorStatus(client.io, status.toLowerCase())} ${dim(mode)}`);
    },
  });
}

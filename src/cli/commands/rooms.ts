import type { Command } from 'commander';
import { BATCH_DESCRIPTION, type BatchResult, showBatch } from '../batch-results.ts';
import { createCliContext } from '../cli-context.ts';
import { addCommandOptions, type CommandRequestOptions, commandRequestOf } from '../command-request.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';
import { fetchRooms } from '../references.ts';

interface RoomOptions {
  home?: string;
}
interface RoomCommandOptions extends CommandRequestOptions, RoomOptions {
  category?: string;
}

const IN_HOME = ['--home <home>', 'home of the room'] as const;

export function addRooms(program: Command, io: Io): void {
  const rooms = program
    .command('rooms')
    .summary('manage and command rooms')
    .description('Lists, changes and commands rooms. A room is given by id, name or home/name.');
  rooms
    .command('list', { isDefault: true })
    .description('Lists the rooms of all homes, or of one.')
    .option('--home <home>', 'only of this home')
    .action(async ({ home }: RoomOptions, command: Command) => {
      const { api, show, resolveOption } = createCliContext(io, command);
      const found = await fetchRooms(api, await resolveOption('home', home));
      show({ rooms: found.map(({ home_name: _, ...room }) => room) }, () => {
        const rows = found.map(({ id, name, home_name, home_id }) => [id, name, home_name ?? home_id]);
        printTable(io, ['ID', 'NAME', 'HOME'], rows);
      });
    });
  rooms
    .command('create <home> <name>')
    .description('Creates a room and prints its id.')
    .action(async (home: string, name: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const path = `/v1/homes/${encodeURIComponent(await resolve('home', home))}/rooms`;
      show(await api.post<{ id: string }>(path, { name }), ({ id }) => io.out(id));
    });
  rooms
    .command('rename <room> <name>')
    .description('Renames a room. Without --home its home is looked up.')
    .option(...IN_HOME)
    .action(async (room: string, name: string, { home }: RoomOptions, command: Command) => {
      const { api, show, resolveOption, resolveRoom } = createCliContext(io, command);
      const found = await resolveRoom(room, await resolveOption('home', home));
      const path = `/v1/homes/${encodeURIComponent(found.homeId)}/rooms/${encodeURIComponent(found.id)}`;
      const { body } = await api.request<{ room: { id: string; name: string } }>('PATCH', path, { body: { name } });
      show(body, ({ room: renamed }) => io.out(`${renamed.id}  ${renamed.name}`));
    });
  addCommandOptions(rooms.command('command <room> <action> [name=value...]'))
    .description(`Sends a command to all devices in a room, or to those of a category. ${BATCH_DESCRIPTION}`)
    .option(...IN_HOME)
    .option('--category <name>', 'only devices of this category, such as light')
    .addHelpText('after', '\nExample:\n  twinkeep rooms command Flat/Kitchen turn_off --category light')
    .action(
      async (room: string, action: string, assignments: string[], options: RoomCommandOptions, command: Command) => {
        const client = createCliContext(io, command);
        const request = {
          ...(await commandRequestOf(io, action, assignments, options)),
          ...(options.category !== undefined && { capability: options.category }),
        };
        const homeId = await client.resolveOption('home', options.home);
        const id = await client.resolve('room', room, homeId === undefined ? {} : { homeId });
        const path = `/v1/rooms/${encodeURIComponent(id)}/command`;
        const body = await client.api.post<{ results: BatchResult[] }>(path, request);
        await showBatch(client, body, { dryRun: options.dryRun });
      },
    );
}

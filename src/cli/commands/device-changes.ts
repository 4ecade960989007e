import type { Command } from 'commander';
import { collectOption } from '../argument-parsers.ts';
import { BATCH_DESCRIPTION, type BatchResult, showBatch } from '../batch-results.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { addCommandOptions, type CommandRequestOptions, commandRequestOf } from '../command-request.ts';
import { UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printRecord } from '../print.ts';

interface Device {
  id: string;
  name: string | null;
  home_id: string | null;
  room_id: string | null;
}
interface MoveOptions {
  home?: string;
  /** False with --no-room. */
  room?: string | false;
}

const devicePath = (id: string): string => `/v1/devices/${encodeURIComponent(id)}`;

/** Verbs that rename, move and command devices. */
export function addDeviceChanges(devices: Command, io: Io): void {
  devices
    .command('rename <device> <name>')
    .description('Renames a device.')
    .action(async (device: string, name: string, _options, command: Command) => {
      const client = createCliContext(io, command);
      await patchDevice(client, await client.resolve('device', device), { name });
    });
  devices
    .command('move <device>')
    .description('Moves a device to a home, and to a room there. A room without --home is one of its home.')
    .option('--home <home>', 'home of the device')
    .option('--room <room>', 'room of the device')
    .option('--no-room', 'take the device out of its room')
    .action(async (device: string, { home, room }: MoveOptions, command: Command) => {
      if (home === undefined && room === undefined) throw new UsageError('give --home, --room or --no-room');
      const client = createCliContext(io, command);
      const id = await client.resolve('device', device);
      const homeId = await client.resolveOption('home', home);
      const roomId = room === undefined || room === false ? null : await resolveRoomFor(client, id, room, homeId);
      await patchDevice(client, id, {
        ...(homeId !== undefined && { home_id: homeId }),
        ...(room !== undefined && { room_id: roomId }),
      });
    });
  addCommandOptions(devices.command('command <action> [name=value...]'))
    .description(`Sends one command to many devices. ${BATCH_DESCRIPTION}`)
    .requiredOption('--device <device>', 'a device to command; repeatable', collectOption)
    .addHelpText('after', '\nExample:\n  twinkeep devices command turn_off --device "Desk lamp" --device Ceiling')
    .action(
      async (
        action: string,
        assignments: string[],
        { device, ...options }: CommandRequestOptions & { device: string[] },
        command: Command,
      ) => {
        const client = createCliContext(io, command);
        const request = await commandRequestOf(io, action, assignments, options);
        const body = await client.api.post<{ results: BatchResult[] }>('/v1/devices/command', {
          ...{ device_ids: await client.resolveAll('device', device), ...request },
        });
        await showBatch(client, body, { dryRun: options.dryRun });
      },
    );
}

/** A name is looked for in the given home, else in the device's own. */
async function resolveRoomFor(client: CliContext, deviceId: string, room: string, homeId?: string): Promise<string> {
  const within = homeId ?? (await client.api.get<{ device: Device }>(devicePath(deviceId))).device.home_id;
  return client.resolve('room', room, within === null ? {} : { homeId: within });
}

async function patchDevice({ api, io, show }: CliContext, id: string, changes: object): Promise<void> {
  const { body } = await api.request<{ device: Device }>('PATCH', devicePath(id), { body: changes });
  show(body, ({ device: { name, home_id, room_id } }) => printRecord(io, { id, name, home_id, room_id }));
}

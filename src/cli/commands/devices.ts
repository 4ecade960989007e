import { type Command, Option } from 'commander';
import { signingAlgs } from '../../domain/device-key.ts';
import { collectOption, parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { colorStatus, printRecord, printTable } from '../print.ts';
import { addDeviceChanges } from './device-changes.ts';
import { addDeviceTags } from './device-tags.ts';

interface Device {
  id: string;
  name: string | null;
  device_type: string;
  home_id: string | null;
  online: boolean;
  revoked: boolean;
  tags: string[];
  last_seen: string | null;
}
interface DevicePage {
  devices: Device[];
  count: number;
  next_cursor: string | null;
}

const SHOWN_ONCE_HINT = 'It is shown only once: store it on the device.';

export function addDevices(program: Command, io: Io): void {
  const devices = program
    .command('devices')
    .summary('register and manage devices')
    .description('Registers, lists and manages devices.');
  addList(devices, io);
  addDeviceTags(devices, io);
  devices
    .command('get <device>')
    .description('Shows a device with its reported state.')
    .action(async (device: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const path = devicePath(await resolve('device', device));
      show(await api.get<{ device: Record<string, unknown> }>(path), (found) => printRecord(io, found.device));
    });
  addRegister(devices, io);
  addDeviceChanges(devices, io);
  addKeys(devices, io);
  addRevocation(devices, io);
}

const devicePath = (id: string): string => `/v1/devices/${encodeURIComponent(id)}`;
const deviceActionPath = (id: string, verb: string): string => `/v1/device/${encodeURIComponent(id)}/${verb}`;

/** The ids of a home and a room that options name; the room is looked for in the home, if both are given. */
async function resolvePlace(
  resolveOption: CliContext['resolveOption'],
  { home, room }: { home?: string | undefined; room?: string | undefined },
): Promise<{ home_id?: string; room_id?: string }> {
  const homeId = await resolveOption('home', home);
  const roomId = await resolveOption('room', room, homeId === undefined ? {} : { homeId });
  return { ...(homeId !== undefined && { home_id: homeId }), ...(roomId !== undefined && { room_id: roomId }) };
}

function addList(devices: Command, io: Io): void {
  devices
    .command('list', { isDefault: true })
    .description('Lists devices, newest first.')
    .option('--home <home>', 'only in this home')
    .option('--room <room>', 'only in this room')
    .option('--type <device-type>', 'only of this type')
    .option('--online', 'only online devices')
    .option('--revoked', 'only revoked devices')
    .option('--tag <tag>', 'only with this tag; repeatable, for devices that have all of them', collectOption)
    .option('--search <text>', 'only with this text in the name, the type or a tag, or at the start of the id')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async (options: Record<string, string | string[] | number | boolean | undefined>, command: Command) => {
      const { api, show, resolveOption } = createCliContext(io, command);
      const text = (name: string) => (options[name] === undefined ? undefined : String(options[name]));
      const { home_id, room_id } = await resolvePlace(resolveOption, { home: text('home'), room: text('room') });
      const body = await api.get<DevicePage>('/v1/devices', {
        ...{ home_id, room_id },
        device_type: text('type'),
        online: text('online'),
        revoked: text('revoked'),
        tag: options.tag as string[] | undefined,
        q: text('search'),
        limit: text('limit'),
        cursor: text('cursor'),
      });
      show(body, ({ devices: page, next_cursor }) => {
        const rows = page.map(({ id, name, device_type, online, revoked, tags, last_seen }) => [
          ...[id, name, device_type, revoked ? 'revoked' : online ? 'online' : 'offline', last_seen, tags.join(' ')],
        ]);
        printTable(io, ['ID', 'NAME', 'TYPE', 'STATUS', 'LAST SEEN', 'TAGS'], rows);
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
}

interface RegisterOptions {
  home: string;
  room?: string;
  name?: string;
  tag?: string[];
  category?: string;
  alg?: string;
  publicKey?: string;
}

function addRegister(devices: Command, io: Io): void {
  devices
    .command('register <device-type>')
    .description(
      'Registers a device and prints its id and secret. A type that contains a category (smart_light, "Smart Switch")\n' +
        'gets the actions of that category.',
    )
    .requiredOption('--home <home>', 'home of the device')
    .option('--room <room>', 'room of the device')
    .option('--name <name>', 'display name')
    .option('--tag <tag>', 'tag of the device; repeatable', collectOption)
    .option('--category <category>', 'category whose actions it gets, if its type does not name one')
    .addOption(new Option('--alg <algorithm>', 'signing algorithm').choices(signingAlgs))
    .option('--public-key <key>', 'public key of a device that generated its own Ed25519 key: 32 bytes, base64url')
    .addHelpText(
      'after',
      '\nExample:\n  twinkeep devices register smart_light --home $(twinkeep homes create "My flat")',
    )
    .action(async (deviceType: string, options: RegisterOptions, command: Command) => {
      const { api, show, resolveOption } = createCliContext(io, command);
      const { home, room, name, tag, category, alg, publicKey } = options;
      const body = await api.post<Record<string, unknown>>('/v1/device/register', {
        device_type: deviceType,
        ...(await resolvePlace(resolveOption, { home, room })),
        ...(name !== undefined && { name }),
        ...(tag !== undefined && { tags: tag }),
        ...(category !== undefined && { category }),
        ...((alg ?? publicKey) !== undefined && { signing_alg: alg ?? 'ed25519' }),
        ...(publicKey !== undefined && { public_key: publicKey }),
      });
      show(body, (registered) => {
        printRecord(io, registered);
        if (registered.manifest_version === null)
          io.err(
            io.errColors.yellow(
              'The device has no manifest and accepts no commands: name a --category, or add one with twinkeep manifests.',
            ),
          );
        if (registered.device_secret !== null) io.err(io.errColors.yellow(`device_secret: ${SHOWN_ONCE_HINT}`));
      });
    });
}

function addKeys(devices: Command, io: Io): void {
  devices
    .command('rotate <device>')
    .description('Issues a new secret for a device; the old one remains valid for 24 hours.')
    .option('--public-key <key>', 'public key of a device that generated its own Ed25519 key')
    .action(async (device: string, { publicKey }: { publicKey?: string }, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const id = await resolve('device', device, { whole: true });
      const request = publicKey === undefined ? undefined : { public_key: publicKey };
      show(await api.post<Record<string, unknown>>(deviceActionPath(id, 'rotate-secret'), request), (rotated) => {
        printRecord(io, rotated);
        if (rotated.new_secret !== null) io.err(io.errColors.yellow(`new_secret: ${SHOWN_ONCE_HINT}`));
      });
    });
  devices
    .command('keys <device>')
    .description('Lists the current and former keys of a device.')
    .action(async (device: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const id = await resolve('device', device);
      type Keys = { keys: Record<'key_version' | 'signing_alg' | 'created_at' | 'grace_until' | 'status', string>[] };
      show(await api.get<Keys>(deviceActionPath(id, 'key-history')), ({ keys }) =>
        printTable(
          io,
          ['VERSION', 'ALGORITHM', 'CREATED', 'GRACE UNTIL', 'STATUS'],
          keys.map((key) => [key.key_version, key.signing_alg, key.created_at, key.grace_until, key.status]),
        ),
      );
    });
}

function addRevocation(devices: Command, io: Io): void {
  devices
    .command('revoke <device>')
    .description('Revokes a device: its session ends and its keys become permanently invalid.')
    .action(async (device: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const id = await resolve('device', device, { whole: true });
      show(await api.post<{ status: string }>(deviceActionPath(id, 'revoke')), ({ status }) =>
        io.out(colorStatus(io, status)),
      );
    });
  devices
    .command('reinstate <device>')
    .description('Reinstates a revoked device with a new secret.')
    .requiredOption('--reason <text>', 'reason, stored in the journal')
    .option('--public-key <key>', 'public key of a device that generated its own Ed25519 key')
    .action(async (device: string, { reason, publicKey }: { reason: string; publicKey?: string }, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const id = await resolve('device', device);
      const request = { reason, ...(publicKey !== undefined && { public_key: publicKey }) };
      show(await api.post<Record<string, unknown>>(deviceActionPath(id, 'reinstate'), request), (reinstated) =>
        printRecord(io, reinstated),
      );
    });
  devices
    .command('delete <device...>')
    .description('Deletes revoked devices; their journal is kept.')
    .action(async (devices: string[], _options, command: Command) => {
      const { api, resolveAll } = createCliContext(io, command);
      for (const id of await resolveAll('device', devices, { whole: true }))
        await api.request('DELETE', devicePath(id));
    });
}

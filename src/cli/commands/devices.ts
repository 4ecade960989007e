import { type Command, Option } from 'commander';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { colorStatus, printRecord, printTable } from '../print.ts';

interface Device {
  id: string;
  name: string | null;
  device_type: string;
  home_id: string | null;
  online: boolean;
  revoked: boolean;
  last_seen: string | null;
}
interface DevicePage {
  devices: Device[];
  count: number;
  next_cursor: string | null;
}

const SHOWN_ONCE_HINT = 'It is shown this once: put it on the device.';

export function addDevices(program: Command, io: Io): void {
  const devices = program.command('devices').summary('register and look after devices').description('Devices.');
  addList(devices, io);
  devices
    .command('get <device-id>')
    .description('Everything about one device, its reported state too.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<{ device: Record<string, unknown> }>(devicePath(id)), ({ device }) => printRecord(io, device));
    });
  addRegister(devices, io);
  addKeys(devices, io);
  addRevocation(devices, io);
}

const devicePath = (id: string): string => `/v1/devices/${encodeURIComponent(id)}`;
const deviceActionPath = (id: string, verb: string): string => `/v1/device/${encodeURIComponent(id)}/${verb}`;

function addList(devices: Command, io: Io): void {
  devices
    .command('list', { isDefault: true })
    .description('Devices, newest first.')
    .option('--home <home-id>', 'only of this home')
    .option('--room <room-id>', 'only of this room')
    .option('--type <device-type>', 'only of this type')
    .option('--online', 'only those that are online')
    .option('--revoked', 'only revoked ones')
    .option('--limit <n>', 'at most so many', parseIntegerBetween(1, 200), 50)
    .option('--cursor <cursor>', 'go on where the page before ended')
    .action(async (options: Record<string, string | number | boolean | undefined>, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const text = (name: string) => (options[name] === undefined ? undefined : String(options[name]));
      const body = await api.get<DevicePage>('/v1/devices', {
        home_id: text('home'),
        room_id: text('room'),
        device_type: text('type'),
        online: text('online'),
        revoked: text('revoked'),
        limit: text('limit'),
        cursor: text('cursor'),
      });
      show(body, ({ devices: page, next_cursor }) => {
        const rows = page.map(({ id, name, device_type, online, revoked, last_seen }) => [
          ...[id, name, device_type, revoked ? 'revoked' : online ? 'online' : 'offline', last_seen],
        ]);
        printTable(io, ['ID', 'NAME', 'TYPE', 'STATUS', 'LAST SEEN'], rows);
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
}

function addRegister(devices: Command, io: Io): void {
  devices
    .command('register <device-type>')
    .description(
      'Registers a device and prints its id and secret. A type that ends in a category (smart_light) brings that\n' +
        'category’s actions.',
    )
    .requiredOption('--home <home-id>', 'the home it belongs to')
    .option('--room <room-id>', 'the room')
    .option('--name <name>', 'what people call it')
    .addOption(new Option('--alg <algorithm>', 'how it signs').choices(['hmac-sha256', 'ed25519']))
    .option('--public-key <key>', 'of a device that made its own Ed25519 key: 32 bytes, base64url')
    .addHelpText(
      'after',
      '\nExample:\n  twinkeep devices register smart_light --home $(twinkeep homes create "My flat")',
    )
    .action(async (deviceType: string, options: Record<string, string | undefined>, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { home, room, name, alg, publicKey } = options;
      const body = await api.post<Record<string, unknown>>('/v1/device/register', {
        device_type: deviceType,
        home_id: home,
        ...(room !== undefined && { room_id: room }),
        ...(name !== undefined && { name }),
        ...((alg ?? publicKey) !== undefined && { signing_alg: alg ?? 'ed25519' }),
        ...(publicKey !== undefined && { public_key: publicKey }),
      });
      show(body, (made) => {
        printRecord(io, made);
        if (made.device_secret !== null) io.err(io.errColors.yellow(`device_secret: ${SHOWN_ONCE_HINT}`));
      });
    });
}

function addKeys(devices: Command, io: Io): void {
  devices
    .command('rotate <device-id>')
    .description('Gives a device a new secret; the old one works for 24 hours more.')
    .option('--public-key <key>', 'of a device that made its own Ed25519 key')
    .action(async (id: string, { publicKey }: { publicKey?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const given = publicKey === undefined ? undefined : { public_key: publicKey };
      show(await api.post<Record<string, unknown>>(deviceActionPath(id, 'rotate-secret'), given), (made) => {
        printRecord(io, made);
        if (made.new_secret !== null) io.err(io.errColors.yellow(`new_secret: ${SHOWN_ONCE_HINT}`));
      });
    });
  devices
    .command('keys <device-id>')
    .description('The keys a device has had.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
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
    .command('revoke <device-id>')
    .description('Shuts a device out: its session ends, its keys are dead for good.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.post<{ status: string }>(deviceActionPath(id, 'revoke')), ({ status }) =>
        io.out(colorStatus(io, status)),
      );
    });
  devices
    .command('reinstate <device-id>')
    .description('Takes a revoked device back, with a new secret.')
    .requiredOption('--reason <text>', 'why, for the record')
    .option('--public-key <key>', 'of a device that made its own Ed25519 key')
    .action(async (id: string, { reason, publicKey }: { reason: string; publicKey?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const given = { reason, ...(publicKey !== undefined && { public_key: publicKey }) };
      show(await api.post<Record<string, unknown>>(deviceActionPath(id, 'reinstate'), given), (made) =>
        printRecord(io, made),
      );
    });
  devices
    .command('delete <device-id...>')
    .description('Removes revoked devices; their journal is kept.')
    .action(async (ids: string[], _options, command: Command) => {
      const { api } = createCliContext(io, command);
      for (const id of new Set(ids)) await api.request('DELETE', devicePath(id));
    });
}

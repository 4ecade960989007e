import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { SingleBar } from 'cli-progress';
import { type Command, Option } from 'commander';
import { firmwareStatuses, MAX_ARTIFACT_BYTES } from '../../domain/firmware.ts';
import type { Api } from '../api.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import { FailedError, UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printRecord, printTable } from '../print.ts';

interface Release {
  id: string;
  device_type: string;
  version: string;
  status: string;
  rollout_percent: number;
  checksum: string | null;
  created_at: string;
}
interface ReleaseAnswer {
  status: string;
  id: string;
  release: Release;
}
interface CreateOptions {
  notes?: string;
  file?: string;
  link?: string;
  checksum?: string;
}

const firmwarePath = (id: string, rest = ''): string => `/v1/firmware/${encodeURIComponent(id)}${rest}`;
const parsePercent = parseIntegerBetween(0, 100);

export function addFirmware(program: Command, io: Io): void {
  const firmware = program
    .command('firmware')
    .summary('versions for devices, and their rollout')
    .description('Firmware: drafts, their artifacts, releases, and what a device should have.')
    .addHelpText(
      'after',
      '\nExample:\n  ID=$(twinkeep firmware create smart_light 1.5.0 --file light.bin)\n' +
        '  twinkeep firmware release $ID --rollout 10\n' +
        '  twinkeep command $DEVICE update_firmware firmware_id=$ID',
    );
  addLists(firmware, io);
  addDrafts(firmware, io);
  addReleases(firmware, io);
  addCheck(firmware, io);
}

function addLists(firmware: Command, io: Io): void {
  firmware
    .command('list', { isDefault: true })
    .description('Releases and drafts, newest first.')
    .option('--type <device-type>', 'only for this type of device')
    .addOption(new Option('--status <status>', 'only of this status').choices(firmwareStatuses))
    .option('--limit <n>', 'at most so many', parseIntegerBetween(1, 200), 50)
    .option('--cursor <cursor>', 'go on where the page before ended')
    .action(async (options: Record<'type' | 'status' | 'limit' | 'cursor', string | undefined>, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { type, status, limit, cursor } = options;
      const query = { device_type: type, status, limit: String(limit), cursor };
      show(await api.get<{ releases: Release[]; next_cursor: string | null }>('/v1/firmware', query), (page) => {
        const rows = page.releases.map((one) => [
          ...[one.id, one.device_type, one.version, one.status, `${one.rollout_percent} %`, one.created_at],
        ]);
        printTable(io, ['ID', 'TYPE', 'VERSION', 'STATUS', 'ROLLOUT', 'CREATED'], rows);
        if (page.next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${page.next_cursor}`));
      });
    });
  firmware
    .command('get <release-id>')
    .description('Everything about one release.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<{ release: Release }>(firmwarePath(id)), ({ release }) => printRecord(io, { ...release }));
    });
}

function addDrafts(firmware: Command, io: Io): void {
  firmware
    .command('create <device-type> <version>')
    .description('Drafts a release and prints its id. It is offered to nobody until it is released.')
    .option('--notes <text>', 'what is new')
    .option('--file <path>', 'the artifact, uploaded at once')
    .option('--link <url>', 'where others keep the artifact; needs --checksum')
    .option('--checksum <sha256>', 'SHA-256 of what is at --link, hex')
    .action(async (deviceType: string, version: string, options: CreateOptions, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { notes, file, link, checksum } = options;
      if (file !== undefined && link !== undefined) throw new UsageError('--file and --link exclude each other');
      const bytes = file === undefined ? null : await artifactSize(file);
      let made = await api.post<ReleaseAnswer>('/v1/firmware/release', {
        device_type: deviceType,
        version,
        ...(notes !== undefined && { notes }),
        ...(link !== undefined && { url: link }),
        ...(checksum !== undefined && { checksum }),
      });
      if (file !== undefined && bytes !== null) made = await upload(io, api, made.id, { path: file, bytes });
      show(made, ({ id }) => io.out(id));
    });
  firmware
    .command('upload <release-id> <file>')
    .description('Uploads the artifact of a draft; an earlier one is replaced.')
    .action(async (id: string, path: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await upload(io, api, id, { path, bytes: await artifactSize(path) }), ({ release }) =>
        printRecord(io, { ...release }),
      );
    });
}

function addReleases(firmware: Command, io: Io): void {
  firmware
    .command('release <release-id>')
    .description('Releases a draft, or changes how far a release is rolled out.')
    .option('--rollout <percent>', 'offer it to so many of a hundred devices', parsePercent)
    .action(async (id: string, { rollout }: { rollout?: number }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const given = rollout === undefined ? undefined : { rollout_percent: rollout };
      show(await api.post<ReleaseAnswer>(firmwarePath(id, '/release'), given), ({ release }) =>
        printRecord(io, { ...release }),
      );
    });
  firmware
    .command('withdraw <release-id>')
    .description('Withdraws a release for good: it is offered and served no more.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.post<ReleaseAnswer>(firmwarePath(id, '/withdraw')), ({ status }) => io.out(status));
    });
}

function addCheck(firmware: Command, io: Io): void {
  firmware
    .command('check [device-type] [current-version]')
    .description('What a type of device, or one device, should be updated to.')
    .option('--device <device-id>', 'this one; its type and version need not be said')
    .action(
      async (
        type: string | undefined,
        version: string | undefined,
        { device }: { device?: string },
        command: Command,
      ) => {
        const { api, show } = createCliContext(io, command);
        const known = device === undefined ? null : await fetchDevice(api, device);
        const device_type = type ?? known?.device_type;
        const current_version = version ?? known?.firmware ?? undefined;
        if (device_type === undefined || current_version === undefined) {
          throw new UsageError(
            'a device type and its current version are needed, or a --device that has told its version',
          );
        }
        const asked = { device_type, current_version, ...(device !== undefined && { device_id: device }) };
        show(await api.post<Record<string, unknown>>('/v1/firmware/check', asked), (found) => printRecord(io, found));
      },
    );
}

const fetchDevice = async (api: Api, id: string): Promise<{ device_type: string; firmware: string | null }> =>
  (await api.get<{ device: { device_type: string; firmware: string | null } }>(`/v1/devices/${encodeURIComponent(id)}`))
    .device;

async function artifactSize(path: string): Promise<number> {
  const found = await stat(path).catch(() => null);
  if (found === null || !found.isFile()) throw new UsageError(`${path} is no file`);
  if (found.size === 0 || found.size > MAX_ARTIFACT_BYTES) {
    throw new UsageError(`an artifact holds 1 to ${MAX_ARTIFACT_BYTES} bytes, and ${path} has ${found.size}`);
  }
  return found.size;
}

/** What the service computed must be the checksum of what was read here. */
async function upload(io: Io, api: Api, id: string, file: { path: string; bytes: number }): Promise<ReleaseAnswer> {
  const digest = createHash('sha256');
  const bar = startProgressBar(io, file.bytes);
  async function* octets(): AsyncGenerator<Uint8Array> {
    for await (const chunk of createReadStream(file.path) as AsyncIterable<Buffer>) {
      digest.update(chunk);
      yield chunk;
      bar.increment(chunk.length);
    }
  }
  try {
    const { body } = await api.request<ReleaseAnswer>('PUT', firmwarePath(id, '/artifact'), { binaryBody: octets() });
    if (body.release.checksum === digest.digest('hex')) return body;
    throw new FailedError('the service received something else than what was sent: upload it again');
  } finally {
    bar.stop();
  }
}

/** Nothing where stderr is no terminal. */
function startProgressBar(io: Io, bytes: number): SingleBar {
  const bar = new SingleBar({
    stream: io.stderr as NodeJS.WriteStream,
    format: 'uploading {bar} {percentage} %  {eta_formatted}',
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    clearOnComplete: true,
    noTTYOutput: false,
  });
  bar.start(bytes, 0);
  return bar;
}

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { SingleBar } from 'cli-progress';
import { type Command, Option } from 'commander';
import { firmwareStatuses, MAX_ARTIFACT_BYTES } from '../../domain/firmware.ts';
import type { Api } from '../api.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import { FailedError, UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printRecord, printTable } from '../print.ts';
import { addFirmwareSigning } from './firmware-signing.ts';

interface Release {
  id: string;
  device_type: string;
  version: string;
  status: string;
  rollout_percent: number;
  checksum: string | null;
  signature: string | null;
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
  size?: number;
  signature?: string;
}
interface ReleaseOptions {
  rollout?: number;
  size?: number;
  signature?: string;
}

const firmwarePath = (id: string, rest = ''): string => `/v1/firmware/${encodeURIComponent(id)}${rest}`;
const parsePercent = parseIntegerBetween(0, 100);
const parseSize = parseIntegerBetween(1, 999_999_999);
const SIGNATURE = 'signature of the firmware, as printed by firmware sign';

export function addFirmware(program: Command, io: Io): void {
  const firmware = program
    .command('firmware')
    .summary('manage firmware releases')
    .description('Manages firmware drafts, artifacts, releases and rollouts, and checks for updates.')
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
  addFirmwareSigning(firmware, io);
}

function addLists(firmware: Command, io: Io): void {
  firmware
    .command('list', { isDefault: true })
    .description('Lists releases and drafts, newest first.')
    .option('--type <device-type>', 'only for this device type')
    .addOption(new Option('--status <status>', 'only with this status').choices(firmwareStatuses))
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async (options: Record<'type' | 'status' | 'limit' | 'cursor', string | undefined>, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { type, status, limit, cursor } = options;
      const query = { device_type: type, status, limit: String(limit), cursor };
      show(await api.get<{ releases: Release[]; next_cursor: string | null }>('/v1/firmware', query), (page) => {
        const rows = page.releases.map((one) => [
          ...[one.id, one.device_type, one.version, one.status, `${one.rollout_percent} %`],
          ...[one.signature === null ? 'no' : 'yes', one.created_at],
        ]);
        printTable(io, ['ID', 'TYPE', 'VERSION', 'STATUS', 'ROLLOUT', 'SIGNED', 'CREATED'], rows);
        if (page.next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${page.next_cursor}`));
      });
    });
  firmware
    .command('get <release-id>')
    .description('Shows a release.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<{ release: Release }>(firmwarePath(id)), ({ release }) => printRecord(io, { ...release }));
    });
}

function addDrafts(firmware: Command, io: Io): void {
  firmware
    .command('create <device-type> <version>')
    .description('Creates a draft and prints its id. Devices are offered it only after its release.')
    .option('--notes <text>', 'release notes')
    .option('--file <path>', 'artifact to upload')
    .option('--link <url>', 'URL of an externally hosted artifact; requires --checksum')
    .option('--checksum <sha256>', 'SHA-256 of the artifact at --link, hex')
    .option('--size <bytes>', 'size of the artifact at --link; needed with --signature', parseSize)
    .option('--signature <signature>', SIGNATURE)
    .action(async (deviceType: string, version: string, options: CreateOptions, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { notes, file, link, checksum, size, signature } = options;
      if (file !== undefined && link !== undefined) throw new UsageError('give --file or --link, not both');
      const bytes = file === undefined ? null : await artifactSize(file);
      let created = await api.post<ReleaseAnswer>('/v1/firmware/release', {
        device_type: deviceType,
        version,
        ...(notes !== undefined && { notes }),
        ...(link !== undefined && { url: link }),
        ...(checksum !== undefined && { checksum }),
        ...(size !== undefined && { size }),
        ...(signature !== undefined && { signature }),
      });
      if (file !== undefined && bytes !== null) created = await upload(io, api, created.id, { path: file, bytes });
      show(created, ({ id }) => io.out(id));
    });
  firmware
    .command('upload <release-id> <file>')
    .description('Uploads the artifact of a draft, replacing any earlier one.')
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
    .description('Releases a draft, or changes the rollout percentage of a release.')
    .option('--rollout <percent>', 'percentage of devices that are offered the release', parsePercent)
    .option('--size <bytes>', 'size of an externally hosted artifact; needed with its signature', parseSize)
    .option('--signature <signature>', SIGNATURE)
    .action(async (id: string, { rollout, size, signature }: ReleaseOptions, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const request = {
        ...(rollout !== undefined && { rollout_percent: rollout }),
        ...(size !== undefined && { size }),
        ...(signature !== undefined && { signature }),
      };
      show(await api.post<ReleaseAnswer>(firmwarePath(id, '/release'), request), ({ release }) =>
        printRecord(io, { ...release }),
      );
    });
  firmware
    .command('withdraw <release-id>')
    .description('Withdraws a release permanently: it is no longer offered or served.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.post<ReleaseAnswer>(firmwarePath(id, '/withdraw')), ({ status }) => io.out(status));
    });
}

function addCheck(firmware: Command, io: Io): void {
  firmware
    .command('check [device-type] [current-version]')
    .description('Prints the version that a device type or a device should be updated to.')
    .option('--device <device>', 'use the type and version of this device')
    .action(
      async (
        type: string | undefined,
        version: string | undefined,
        { device }: { device?: string },
        command: Command,
      ) => {
        const { api, show, resolveOption } = createCliContext(io, command);
        const id = await resolveOption('device', device);
        const reported = id === undefined ? null : await fetchDevice(api, id);
        const device_type = type ?? reported?.device_type;
        const current_version = version ?? reported?.firmware ?? undefined;
        if (device_type === undefined || current_version === undefined) {
          throw new UsageError(
            'give a device type and its current version, or a --device that has reported its firmware version',
          );
        }
        const request = { device_type, current_version, ...(id !== undefined && { device_id: id }) };
        show(await api.post<Record<string, unknown>>('/v1/firmware/check', request), (result) =>
          printRecord(io, result),
        );
      },
    );
}

const fetchDevice = async (api: Api, id: string): Promise<{ device_type: string; firmware: string | null }> =>
  (await api.get<{ device: { device_type: string; firmware: string | null } }>(`/v1/devices/${encodeURIComponent(id)}`))
    .device;

async function artifactSize(path: string): Promise<number> {
  const file = await stat(path).catch(() => null);
  if (file === null || !file.isFile()) throw new UsageError(`${path} is not a file`);
  if (file.size === 0 || file.size > MAX_ARTIFACT_BYTES) {
    throw new UsageError(`an artifact must have 1 to ${MAX_ARTIFACT_BYTES} bytes, but ${path} has ${file.size}`);
  }
  return file.size;
}

/** Uploads the artifact, and throws if the service's checksum differs from that of the file. */
async function upload(io: Io, api: Api, id: string, file: { path: string; bytes: number }): Promise<ReleaseAnswer> {
  const digest = createHash('sha256');
  const bar = await startProgressBar(io, file.bytes);
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for await (const chunk of createReadStream(file.path) as AsyncIterable<Buffer>) {
      digest.update(chunk);
      yield chunk;
      bar.increment(chunk.length);
    }
  }
  try {
    const { body } = await api.request<ReleaseAnswer>('PUT', firmwarePath(id, '/artifact'), { binaryBody: chunks() });
    if (body.release.checksum === digest.digest('hex')) return body;
    throw new FailedError('the artifact was corrupted in transit: upload it again');
  } finally {
    bar.stop();
  }
}

/** A progress bar on stderr; prints nothing if that is not a terminal. */
async function startProgressBar(io: Io, bytes: number): Promise<SingleBar> {
  const { SingleBar } = await import('cli-progress');
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

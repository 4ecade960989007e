import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { isRestricted } from '../../domain/capability-registry.ts';
import { isObject } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import type { Api } from '../api.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { FailedError, UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';
import { escapeForTerminal } from '../terminal-text.ts';
import { type ChangeDryRun, isChangeDryRun, showChangeDryRun } from './change-requests.ts';

interface Manifest {
  category: string | null;
  version: number;
  capabilities: { action: string; safetyClass: string; paramSchema: JsonObject; description: string }[];
  properties?: Record<string, { label?: string; unit?: string; history?: string; deadband?: number }>;
}

const manifestPath = (deviceId: string): string => `/v1/devices/${encodeURIComponent(deviceId)}/manifest`;

export const fetchManifest = (api: Api, deviceId: string): Promise<Manifest> =>
  api.get<Manifest>(manifestPath(deviceId));

export function addManifests(program: Command, io: Io): void {
  const manifests = program
    .command('manifests')
    .alias('manifest')
    .summary('show and publish capability manifests')
    .description(
      'Shows and publishes the capability manifest of a device: its actions, parameters and safety classes.',
    );
  manifests
    .command('get <device>')
    .description('Shows the manifest of a device. With --json it can be edited and published again.')
    .action(async (device: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const deviceId = await resolve('device', device);
      show(await fetchManifest(api, deviceId), (manifest) => printManifest(io, manifest));
    });
  manifests
    .command('put <device> <file>')
    .alias('set')
    .description(
      'Publishes the manifest in a JSON file: {"category"?, "version"?, "capabilities": [...], "properties"?: {...}}.\n' +
        'Without a version it replaces the current manifest. A manifest that makes something weaker is not published: what gets weaker and\n' +
        'the command to confirm it are printed, and the exit code is 1. Requires an admin who is signed in; API keys are\n' +
        'not accepted.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  twinkeep manifests get Gate --json > gate.json\n  twinkeep manifests put Gate gate.json',
    )
    .action(async (device: string, file: string, _options, command: Command) => {
      const client = createCliContext(io, command);
      const manifest = await readManifestFile(file);
      showPublished(io, client, await publish(client, await client.resolve('device', device), manifest));
    });
  addAdopt(manifests, io);
}

function addAdopt(manifests: Command, io: Io): void {
  manifests
    .command('adopt <device> <category>')
    .description(
      'Gives a device the actions that the service knows for a category, with the states that verify them, in place of\n' +
        'its manifest. A change that makes something weaker has to be confirmed, as with put.',
    )
    .addHelpText('after', '\nExample:\n  twinkeep manifests adopt Plug switch')
    .action(async (device: string, category: string, _options, command: Command) => {
      const client = createCliContext(io, command);
      showPublished(io, client, await publish(client, await client.resolve('device', device), { category }));
    });
}

function showPublished(io: Io, client: CliContext, answer: Manifest | ChangeDryRun): void {
  if (isChangeDryRun(answer)) {
    client.show(answer, (dryRun) => showChangeDryRun(io, dryRun));
    throw new FailedError('the change has to be confirmed first');
  }
  client.show(answer, (manifest) => printManifest(io, manifest));
}

function printManifest(io: Io, { category, version, capabilities, properties = {} }: Manifest): void {
  io.out(io.outColors.dim(`version ${version}, ${category ?? 'no category'}`));
  const rows = capabilities.map(({ action, safetyClass, paramSchema, description }) => {
    const { properties } = paramSchema;
    const names = isObject(properties) ? Object.keys(properties) : [];
    return [action, safetyClass, escapeForTerminal(names.join(', ')), escapeForTerminal(description)];
  });
  printTable(io, ['ACTION', 'CLASS', 'PARAMETERS', 'DESCRIPTION'], rows);
  const reported = Object.entries(properties).map(([path, { label = '', unit = '', history = 'every', deadband }]) => [
    escapeForTerminal(path),
    escapeForTerminal(label),
    escapeForTerminal(unit),
    deadband === undefined ? history : `${history}, deadband ${deadband}`,
  ]);
  if (reported.length > 0) printTable(io, ['PROPERTY', 'LABEL', 'UNIT', 'HISTORY'], reported);
}

/**
 * The members of a manifest that a client sends. Those that the service adds are left out: ids, and the internal actions of
 * an automatic manifest.
 */
async function readManifestFile(file: string): Promise<JsonObject> {
  const given = await readFile(file, 'utf8')
    .then((text) => JSON.parse(text) as Json)
    .catch((error: Error) => {
      throw new UsageError(`cannot read ${file}: ${error.message}`);
    });
  if (!isObject(given) || !Array.isArray(given.capabilities))
    throw new UsageError(`${file} must contain an object with a list of capabilities`);
  const { deviceId: _, tenantId: __, category, capabilities, ...rest } = given;
  const sent = capabilities.flatMap((one) => {
    if (!isObject(one) || one.id === undefined) return [one];
    const { id: _, ...capability } = one;
    return isRestricted(`${capability.action}`) ? [] : [capability];
  });
  return { ...rest, ...(typeof category === 'string' && { category }), capabilities: sent };
}

/** Replaces the manifest, or registers the first one of a device. */
async function publish(
  { api }: CliContext,
  deviceId: string,
  { version, ...manifest }: JsonObject,
): Promise<Manifest | ChangeDryRun> {
  const path = manifestPath(deviceId);
  const replaced = version ?? (await currentVersion(api, path));
  const { status, body } = await (replaced === 0
    ? api.request<Manifest | ChangeDryRun>('POST', path, { body: manifest, acceptStatuses: [409] })
    : api.request<Manifest | ChangeDryRun>('PUT', path, {
        body: { ...manifest, version: replaced },
        acceptStatuses: [409],
      }));
  if (status !== 409 || isChangeDryRun(body)) return body;
  const { code, detail } = body as { code?: string; detail?: string };
  throw new FailedError(`409 ${code ?? ''} ${detail ?? ''}`);
}

/** 0 without a manifest; throws for a device that does not exist. */
async function currentVersion(api: CliContext['api'], path: string): Promise<number> {
  const { status, body } = await api.request<Manifest>('GET', path, { acceptStatuses: [404] });
  return status === 404 ? 0 : body.version;
}

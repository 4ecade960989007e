import type { Command } from 'commander';
import { BATCH_DESCRIPTION, type BatchResult, showBatch } from '../batch-results.ts';
import { createCliContext } from '../cli-context.ts';
import { addCommandOptions, type CommandRequestOptions, commandRequestOf } from '../command-request.ts';
import type { Io } from '../io.ts';
import { fetchPages } from '../pagination.ts';
import { printRecord, printTable } from '../print.ts';

interface Group {
  slug: string;
  name: string;
  description: string | null;
  device_ids: string[];
}

const groupPath = (slug: string, rest = ''): string => `/v1/groups/${encodeURIComponent(slug)}${rest}`;

export function addGroups(program: Command, io: Io): void {
  const groups = program
    .command('groups')
    .summary('manage and command groups of devices')
    .description('Lists, changes and commands groups of devices. A group is given by slug or name.');
  addReads(groups, io);
  addChanges(groups, io);
  addDevices(groups, io);
  addCommandOptions(groups.command('command <group> <action> [name=value...]'))
    .description(`Sends a command to all devices of a group. ${BATCH_DESCRIPTION}`)
    .addHelpText('after', '\nExample:\n  twinkeep groups command "Evening lights" set_brightness level=20')
    .action(
      async (
        group: string,
        action: string,
        assignments: string[],
        options: CommandRequestOptions,
        command: Command,
      ) => {
        const client = createCliContext(io, command);
        const request = await commandRequestOf(io, action, assignments, options);
        const body = await client.withReference('group', group, (slug) =>
          client.api.post<{ results: BatchResult[] }>(groupPath(slug, '/command'), request),
        );
        await showBatch(client, body, { dryRun: options.dryRun });
      },
    );
}

function addReads(groups: Command, io: Io): void {
  groups
    .command('list', { isDefault: true })
    .description('Lists groups, newest first.')
    .action(async (_options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      type Body = { groups: Group[]; next_cursor: string | null };
      const page = await fetchPages<Body>(api, '/v1/groups', {
        name: 'groups',
        limit: Number.POSITIVE_INFINITY,
        query: {},
      });
      show(page, (body) => {
        const rows = body.groups.map(({ slug, name, device_ids, description }) => [
          ...[slug, name, device_ids.length, description],
        ]);
        printTable(io, ['SLUG', 'NAME', 'DEVICES', 'DESCRIPTION'], rows);
      });
    });
  groups
    .command('show <group>')
    .description('Shows a group with the ids of its devices.')
    .action(async (group: string, _options, command: Command) => {
      const { api, show, withReference } = createCliContext(io, command);
      const body = await withReference('group', group, (slug) => api.get<{ group: Group }>(groupPath(slug)));
      show(body, ({ group: { device_ids, ...found } }) => {
        printRecord(io, found);
        for (const id of device_ids) io.out(`  ${id}`);
      });
    });
}

function addChanges(groups: Command, io: Io): void {
  groups
    .command('create <name> [device...]')
    .description('Creates a group and prints its slug.')
    .option('--description <text>', 'description of the group')
    .action(async (name: string, devices: string[], { description }: { description?: string }, command: Command) => {
      const { api, show, resolveAll } = createCliContext(io, command);
      const request = {
        ...{ name, device_ids: await resolveAll('device', devices) },
        ...(description !== undefined && { description }),
      };
      show(await api.post<{ slug: string }>('/v1/groups', request), ({ slug }) => io.out(slug));
    });
  groups
    .command('rename <group> <name>')
    .description('Renames a group; its slug stays.')
    .action(async (group: string, name: string, _options, command: Command) => {
      const { api, show, withReference } = createCliContext(io, command);
      const { body } = await withReference('group', group, (slug) =>
        api.request<{ group: Group }>('PATCH', groupPath(slug), { body: { name } }),
      );
      show(body, ({ group: renamed }) => io.out(`${renamed.slug}  ${renamed.name}`));
    });
  groups
    .command('delete <group...>')
    .description('Deletes groups; their devices are kept.')
    .action(async (all: string[], _options, command: Command) => {
      const { api, withReference } = createCliContext(io, command);
      for (const group of new Set(all)) {
        await withReference('group', group, (slug) => api.request('DELETE', groupPath(slug)), { whole: true });
      }
    });
}

function addDevices(groups: Command, io: Io): void {
  groups
    .command('add <group> <device...>')
    .description('Adds devices to a group and prints the ids of all its devices.')
    .action(async (group: string, devices: string[], _options, command: Command) => {
      const { api, show, resolveAll, withReference } = createCliContext(io, command);
      const request = { device_ids: await resolveAll('device', devices) };
      const body = await withReference('group', group, (slug) =>
        api.post<{ device_ids: string[] }>(groupPath(slug, '/join'), request),
      );
      show(body, ({ device_ids }) => {
        for (const id of device_ids) io.out(id);
      });
    });
  groups
    .command('remove <group> <device...>')
    .description('Removes devices from a group.')
    .action(async (group: string, devices: string[], _options, command: Command) => {
      const { api, resolveAll, withReference } = createCliContext(io, command);
      for (const id of await resolveAll('device', devices)) {
        await withReference('group', group, (slug) => api.request('DELETE', groupPath(slug, `/devices/${id}`)));
      }
    });
}

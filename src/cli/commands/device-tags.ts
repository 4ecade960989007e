import type { Command } from 'commander';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';

interface TagPage {
  tags: { tag: string; devices: number | null }[];
  next_cursor: string | null;
}

/** The commands for the tags of devices. */
export function addDeviceTags(devices: Command, io: Io): void {
  const tag = devices
    .command('tag')
    .summary('add and remove tags of devices')
    .description('Lists the tags of devices, adds tags to a device and removes them.');
  addTagList(tag, io);
  const changes = [
    { verb: 'add', member: 'add_tags', description: 'Adds tags to a device and prints all of its tags.' },
    {
      verb: 'remove',
      member: 'remove_tags',
      description: 'Removes tags from a device and prints those that it has left.',
    },
  ];
  for (const { verb, member, description } of changes) {
    tag
      .command(`${verb} <device> <tag...>`)
      .description(description)
      .action(async (device: string, tags: string[], _options, command: Command) => {
        const { api, show, resolve } = createCliContext(io, command);
        const path = `/v1/devices/${encodeURIComponent(await resolve('device', device))}`;
        const { body } = await api.request<{ device: { tags: string[] } }>('PATCH', path, { body: { [member]: tags } });
        show(body, ({ device: changed }) => {
          for (const one of changed.tags) io.out(one);
        });
      });
  }
}

function addTagList(tag: Command, io: Io): void {
  tag
    .command('list', { isDefault: true })
    .description('Lists the tags with the number of their devices; + after 1000 means more.')
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ cursor }: { cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<TagPage>('/v1/tags', { cursor }), ({ tags, next_cursor }) => {
        const rows = tags.map((one) => [one.tag, one.devices === null ? '1000+' : `${one.devices}`]);
        printTable(io, ['TAG', 'DEVICES'], rows);
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
}

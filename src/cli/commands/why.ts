import type { Command } from 'commander';
import { parsePast } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';
import { printKnownProperties } from '../property-hint.ts';
import { type RequesterFields, requesterText } from '../requester-text.ts';
import { fetchShownNames, type ShownNameOf } from '../shown-names.ts';
import { escapeForTerminal } from '../terminal-text.ts';
import { formatTime } from '../time-text.ts';

interface Link {
  at: string | null;
  kind: string;
  text: string;
  id: string | null;
  by: string | null;
  credential: RequesterFields['requested_with'] | null;
}

interface Explanation {
  property: string;
  value: unknown;
  changed_from: string | null;
  cause: { text: string };
  chain: Link[];
  left_out: string[];
}

export function addWhy(program: Command, io: Io): void {
  program
    .command('why <device> <property>')
    .summary('show why a property of a device has its value')
    .description(
      'Shows the report that changed the value of a property, and the command, confirmation, plan and memories that\n' +
        'caused it. Names of nested properties are separated by dots: climate.temperature',
    )
    .option('--at <time>', 'the value at this time, or so long ago, such as 24h; now by default', parsePast)
    .addHelpText('after', '\nExample:\n  twinkeep why "Front door" locked --at 2h')
    .action(async (device: string, property: string, { at }: { at?: string }, command: Command) => {
      const client = createCliContext(io, command);
      const deviceId = await client.resolve('device', device);
      const path = `/v1/devices/${encodeURIComponent(deviceId)}/why`;
      const query = new URLSearchParams({ property, ...(at !== undefined && { at }) });
      const body = await client.api.get<{ explanation: Explanation }>(`${path}?${query}`);
      const users = body.explanation.chain.map(({ by }) => by);
      const userName = await fetchShownNames(client, 'member', users);
      client.show(body, ({ explanation }) => printExplanation(io, explanation, userName));
      const { value, chain } = body.explanation;
      if (value === null && chain.length === 0 && !client.json)
        await printKnownProperties(io, client.api, { deviceId, property });
    });
}

function printExplanation(io: Io, explanation: Explanation, userName: ShownNameOf): void {
  const { property, value, changed_from, chain, cause, left_out } = explanation;
  const { bold } = io.outColors;
  const since = changed_from === null ? '' : ` since ${formatTime(io, changed_from)}`;
  io.out(`${escapeForTerminal(property)} is ${bold(escapeForTerminal(JSON.stringify(value)))}${since}`);
  io.out(cause.text);
  if (chain.length > 0) {
    const rows = chain.map(({ at, kind, text, id, by, credential }) => [
      ...[at, kind, text],
      by === null
        ? null
        : requesterText({ requested_by: by, ...(credential && { requested_with: credential }) }, userName),
      id,
    ]);
    printTable(io, ['AT', 'KIND', 'EVENT', 'BY', 'ID'], rows);
  }
  if (left_out.length > 0) io.err(io.errColors.dim(`left out, because you may not read them: ${left_out.join(', ')}`));
}

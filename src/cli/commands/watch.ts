import type { Command } from 'commander';
import { collectOption, parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { colorStatus } from '../print.ts';
import { consumeStream } from '../stream-consumption.ts';
import { formatTime, formatTimeOfDay } from '../time-text.ts';
import { type LiveUpdate, openStateStream } from '../update-stream.ts';

interface WatchOptions {
  events: string;
  device?: string[];
  snapshot?: boolean;
  count?: number;
}

export function addWatch(program: Command, io: Io): void {
  program
    .command('watch')
    .summary('print updates as they happen')
    .description(
      'Prints states, presence, commands, confirmations and plans as they change, until Ctrl-C.\n' +
        'A stream that is lost is opened again for about a minute.',
    )
    .option(
      '--events <kinds>',
      'state, report, presence, telemetry, command, confirmation, plan, separated by commas',
      'state,presence,command',
    )
    .option('--device <device>', 'only updates of this device; repeatable', collectOption)
    .option('--snapshot', 'start with all current states')
    .option('--count <n>', 'stop after this many updates', parseIntegerBetween(1, 1_000_000))
    .addHelpText('after', '\nExample:\n  twinkeep watch --snapshot --json | jq .state')
    .action(async ({ events, device, snapshot, count }: WatchOptions, command: Command) => {
      const { api, show, resolveAll } = createCliContext(io, command);
      const devices = await resolveAll('device', device ?? []);
      const filter = { events: events.split(','), devices, snapshot: snapshot === true };
      const ofDevices = device === undefined ? 'all devices' : device.join(', ');
      await consumeStream(
        io,
        `${filter.events.join(', ')} of ${ofDevices}`,
        (onUpdate) => openStateStream(api, filter, onUpdate),
        (update) => show(update, () => io.out(formatUpdate(io, update))),
        count,
      );
    });
}

/** Formats an update as one line. */
export function formatUpdate(io: Io, update: LiveUpdate): string {
  const { dim } = io.outColors;
  const { type, timestamp, device_id, state, online, status, verification, command_id, expires_at } = update;
  const { progress, code, reason } = update;
  const at = dim(formatTimeOfDay(io, Number(timestamp)));
  const head = `${at} ${device_id}`;
  switch (type) {
    case 'state_update':
      return `${head} ${JSON.stringify(state)}`;
    case 'report_update':
      return `${head} report ${JSON.stringify(update.report)}`;
    case 'presence_update':
      return `${head} ${colorStatus(io, online ? 'online' : 'offline')}`;
    case 'telemetry_update': {
      const { type: _, timestamp: __, device_id: ___, device_timestamp: ____, ...reported } = update;
      return `${head} ${Object.entries(reported)
        .map(([name, value]) => `${name} ${value}`)
        .join(' ')}`;
    }
    case 'command_update': {
      const refusal = code === undefined ? '' : ` ${code}: ${reason}`;
      const part = status === 'in_progress' && progress !== undefined ? ` ${JSON.stringify(progress)}` : refusal;
      return `${head} command ${command_id} ${colorStatus(io, String(status))}${part} ${dim(`verification ${verification}`)}`;
    }
    case 'confirmation_update': {
      const until =
        status === 'awaiting_confirmation'
          ? dim(` until ${formatTime(io, new Date(Number(expires_at)).toISOString())}`)
          : '';
      return `${head} confirmation of ${command_id} ${colorStatus(io, String(status))}${until}`;
    }
    case 'plan_update': {
      const { plan_id, step_id, step_status } = update;
      if (step_id === undefined) return `${at} plan ${plan_id} ${colorStatus(io, String(status))}`;
      return `${at} plan ${plan_id} step ${step_id} ${colorStatus(io, String(step_status))}`;
    }
    default:
      return JSON.stringify(update);
  }
}

import type { Command } from 'commander';
import { readClientConfig } from '../../config.ts';
import { makeApi } from '../api.ts';
import type { GlobalOptions } from '../cli-context.ts';
import { FailedError } from '../errors.ts';
import type { Io } from '../io.ts';
import { colorStatus, printJson, printRecord } from '../print.ts';

interface Status {
  system: string;
  status: 'operational' | 'degraded' | 'maintenance';
  version: string;
  protocol: string;
}

/** With `services` if every part works, otherwise with `checks`. */
interface Health {
  status: string;
  services?: Record<string, { status: string }>;
  checks?: Record<string, boolean>;
}

export function addStatus(program: Command, io: Io): void {
  program
    .command('status')
    .summary('show whether the service works')
    .description('Shows the version of the service and the health of its parts. Exits with 1 unless all of it works.')
    .action(async (_options, command: Command) => {
      const { url, json } = command.optsWithGlobals<GlobalOptions>();
      const api = makeApi(url ?? readClientConfig().url, null);
      const status = await api.get<Status>('/status');
      const { body: health } = await api.request<Health>('GET', '/health', { acceptStatuses: [503] });
      if (json) printJson(io, { status, health });
      else showStatus(io, api.url, status, health);
      if (status.status !== 'operational') throw new FailedError(`the service is ${status.status}`);
    });
}

function showStatus(io: Io, url: string, { system, status, version, protocol }: Status, health: Health): void {
  const parts = Object.entries(health.services ?? {}).map(([name, part]) => [name, part.status]);
  const checks = Object.entries(health.checks ?? {}).map(([name, works]) => [name, works ? 'operational' : 'degraded']);
  printRecord(io, { url, system, version, protocol, status: colorStatus(io, status) });
  printRecord(
    io,
    Object.fromEntries([...parts, ...checks].map(([name, state]) => [name, colorStatus(io, `${state}`)])),
  );
}

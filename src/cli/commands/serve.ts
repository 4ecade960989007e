import type { Command } from 'commander';
import { readConfig } from '../../config.ts';
import type { Io } from '../io.ts';
import { makeLog } from '../log.ts';
import { onInterrupt } from '../signals.ts';

/** The drain has 10 s (contract §1); what is not done then is what a crash leaves, and nothing acknowledged is lost. */
const DRAIN_MS = 9_500;

export function addServe(program: Command, io: Io): void {
  program
    .command('serve')
    .summary('run the service')
    .description(
      'Runs the whole service in this process. All settings are environment variables: see twinkeep --help.\n' +
        'SIGTERM and SIGINT drain it: new work is refused, what is in flight is finished.',
    )
    .addHelpText('after', '\nExample:\n  PORT=9090 DATA_DIR=/var/lib/twinkeep twinkeep serve')
    .action(() => serve(io));
}

async function serve(io: Io): Promise<void> {
  const config = readConfig();
  const log = makeLog(config.log, io.stdout);
  const { start } = await import('../../main.ts');
  // A service that was not started yet has nothing to drain.
  let stop: () => void = () => process.exit(0);
  onInterrupt((signal) => {
    log.info({ signal }, 'draining');
    stop();
  });
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, (error: unknown) => {
      log.error({ err: error }, event);
      process.exit(1);
    });
  }

  let stopping = false;
  const service = await start(config, {
    log,
    onFatal(reason: string) {
      // A database that does not answer ends the lease at about the time at which the drain would be over.
      if (stopping) {
        log.warn({ reason }, 'the drain was cut short');
        process.exit(0);
      }
      log.error({ reason }, 'the service cannot go on');
      process.exit(1);
    },
  });
  stop = () => {
    stopping = true;
    setTimeout(() => {
      log.warn({}, 'the drain took too long');
      process.exit(0);
    }, DRAIN_MS).unref();
    service.stop().then(
      () => {
        log.info({}, 'stopped');
        process.exit(0);
      },
      (error: unknown) => {
        log.error({ err: error }, 'the drain failed');
        process.exit(1);
      },
    );
  };
  try {
    await service.active;
  } catch (error) {
    // A process that stood by and is stopped was never to serve.
    if (stopping) return;
    throw error;
  }
  const { bold } = io.errColors;
  io.err(`Twinkeep serves ${bold(service.url)} and ${bold(service.mqttUrl() ?? 'no MQTT')}`);
}

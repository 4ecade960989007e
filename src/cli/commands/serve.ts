import type { Command } from 'commander';
import { readConfig } from '../../config.ts';
import type { Io } from '../io.ts';
import { makePinoLog } from '../log.ts';
import { subscribeToInterrupt } from '../signals.ts';

/** The drain may take 10 s (contract §1). Exiting after that is as safe as a crash: acknowledged work is durable. */
const DRAIN_MS = 9_500;

export function addServe(program: Command, io: Io): void {
  program
    .command('serve')
    .summary('run the service')
    .description(
      'Runs the service in this process. All settings are environment variables: see twinkeep --help.\n' +
        'SIGTERM and SIGINT drain it: new requests are refused, and requests in progress are finished.',
    )
    .addHelpText('after', '\nExample:\n  PORT=9090 DATA_DIR=/var/lib/twinkeep twinkeep serve')
    .action(() => serve(io));
}

async function serve(io: Io): Promise<void> {
  const config = readConfig();
  const log = makePinoLog(config.log, io.stdout);
  const { start } = await import('../../main.ts');
  // Before the service has started there is nothing to drain.
  let stop: () => void = () => process.exit(0);
  subscribeToInterrupt((signal) => {
    log.info({ signal }, 'service draining');
    stop();
  });
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, (error: unknown) => {
      log.error({ err: error, event }, 'process failed with an unhandled error');
      process.exit(1);
    });
  }

  let stopping = false;
  const service = await start(config, {
    log,
    onFatal(reason: string) {
      // With an unresponsive database the lease expires at about the time the drain would end.
      if (stopping) {
        log.warn({ reason }, 'service drain interrupted');
        process.exit(0);
      }
      log.error({ reason }, 'service failed; exiting');
      process.exit(1);
    },
  });
  stop = () => {
    stopping = true;
    setTimeout(() => {
      log.warn({}, 'service drain timed out');
      process.exit(0);
    }, DRAIN_MS).unref();
    service.stop().then(
      () => {
        log.info({}, 'service stopped');
        process.exit(0);
      },
      (error: unknown) => {
        log.error({ err: error }, 'service drain failed');
        process.exit(1);
      },
    );
  };
  try {
    await service.active;
  } catch (error) {
    // A standby process that is stopped never becomes active.
    if (stopping) return;
    throw error;
  }
  const { bold } = io.errColors;
  io.err(`Twinkeep serves ${bold(service.url)} and ${bold(service.mqttUrl() ?? 'no MQTT')}`);
}

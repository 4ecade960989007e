import cluster from 'node:cluster';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../../config/setting-readers.ts';
import { type Config, readConfig } from '../../config.ts';
import { isLoopbackHost } from '../../domain/loopback-host.ts';
import { makeApi } from '../api.ts';
import { parseProcessCount } from '../argument-parsers.ts';
import { returnMemoryWhenIdle } from '../idle-memory.ts';
import { INVOCATION } from '../invocation.ts';
import type { Io } from '../io.ts';
import { makePinoLog } from '../log.ts';
import { processCount, type ServiceAddress, ServiceGroup, type ServingMessage } from '../service-group.ts';
import { subscribeToInterrupt } from '../signals.ts';
import { setV8Flags } from '../v8-flags.ts';

/** The drain may take 10 s (contract §1). Exiting after that is as safe as a crash: acknowledged work is durable. */
const DRAIN_MS = 9_500;

/** As in the examples of `twinkeep token`. */
const FIRST_USER = 'me';
/** The session of the browser ends with the token that the link is made of. */
const FIRST_TOKEN_S = 86_400;

interface ServeOptions {
  processes?: number | 'auto';
}

export function addServe(program: Command, io: Io): void {
  program
    .command('serve')
    .summary('run the service')
    .description(
      'Runs the service in this process, or in several that share its ports. All settings are environment variables:\n' +
        'see twinkeep --help. SIGTERM and SIGINT drain it: new requests are refused, and requests in progress are finished.',
    )
    .option(
      '--processes <count>',
      'number of processes, or auto for one per core; more than one needs DATABASE_URL',
      parseProcessCount,
      1,
    )
    .addHelpText(
      'after',
      '\nExamples:\n  PORT=9090 DATA_DIR=/var/lib/twinkeep twinkeep serve\n  DATABASE_URL=postgres://… twinkeep serve --processes auto',
    )
    .action(({ processes = 1 }: ServeOptions) => {
      const count = processCount(processes);
      return count === 1 ? serve(io) : serveWithProcesses(io, count);
    });
}

async function serve(io: Io): Promise<void> {
  const config = readConfig();
  const log = makePinoLog(config.log, io.stdout);
  const isNew = config.databaseUrl === null && !existsSync(join(config.dataDir, 'db'));
  const { start } = await import('../../main.ts');
  // Before the service has started there is nothing to drain.
  let stop: () => void = () => process.exit(0);
  subscribeToInterrupt((signal) => {
    log.info({ signal }, 'service draining');
    stop();
  });
  exitOnUnhandledErrors(log);
  returnMemoryWhenIdle();

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
  setV8Flags();
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
  // A process of a group does not outlive the group.
  if (cluster.isWorker) process.once('disconnect', () => stop());
  try {
    await service.active;
  } catch (error) {
    // A standby process that is stopped never becomes active.
    if (stopping) return;
    throw error;
  }
  const address = { url: service.url, mqttUrl: service.mqttUrl() ?? 'no MQTT' };
  if (cluster.isWorker) return void process.send?.({ serving: address } satisfies ServingMessage);
  announce(io, config, address);
  if (isNew && isLoopbackHost(new URL(address.url).hostname) && io.stderr.isTTY === true)
    await announceSignIn(io, config, service.url);
}

/** Runs `count` processes that share the ports; each is a node of the database. */
async function serveWithProcesses(io: Io, count: number): Promise<void> {
  const config = readConfig();
  if (config.databaseUrl === null) throw new ConfigError('DATABASE_URL', 'is required for more than one process');
  if (config.sidecar.mode === 'embedded' && config.sidecar.address !== null) {
    throw new ConfigError('SIDECAR_ADDRESS', 'must be unset: each process starts a sidecar on a port that it chooses');
  }
  const log = makePinoLog(config.log, io.stdout);
  const group = new ServiceGroup(count, { node: config.node, log });
  exitOnUnhandledErrors(log);
  let stopping = false;
  subscribeToInterrupt((signal) => {
    stopping = true;
    log.info({ signal, processes: count }, 'service draining');
    void group.stop().then(() => process.exit(0));
  });
  try {
    announce(io, config, await group.start(), count);
  } catch (error) {
    if (stopping) return;
    await group.stop();
    throw error;
  }
}

function exitOnUnhandledErrors(log: ReturnType<typeof makePinoLog>): void {
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, (error: unknown) => {
      log.error({ err: error, event }, 'process failed with an unhandled error');
      process.exit(1);
    });
  }
}

function announce(io: Io, { publicUrl }: Config, { url, mqttUrl }: ServiceAddress, processes = 1): void {
  const { bold } = io.errColors;
  const how = processes === 1 ? '' : ` with ${processes} processes`;
  io.err(`Twinkeep serves ${bold(url)} and ${bold(mqttUrl)}${how}`);
  // A browser elsewhere, or outside the container, cannot open the address that the service listens on.
  io.err(`Console: ${bold(`${publicUrl ?? url}/console`)}`);
}

/**
 * A new service has no users yet, and who starts it on a terminal can sign tokens with its key: the link spares the first
 * one. Not in logs, where others might read it.
 */
async function announceSignIn(io: Io, config: Config, url: string): Promise<void> {
  const { issueToken } = await import('../../main.ts');
  const token = await issueToken(config.keys.tokenSigning, { sub: FIRST_USER, ttlS: FIRST_TOKEN_S });
  try {
    const link = await makeApi(url, token).post<{ url: string }>('/v1/auth/link');
    io.err(`Sign in (once, within ten minutes): ${io.errColors.cyan(link.url)}`);
  } catch {
    // Such as a self-signed certificate: the hint that follows is enough.
  }
  io.err(`Tokens for the same user: ${INVOCATION} token --sub ${FIRST_USER}`);
}

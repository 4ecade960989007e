import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { type Config, readConfig } from '../../config.ts';
import type { RunningDevice } from '../../device/homes/running-device.ts';
import { type Api, makeApi } from '../api.ts';
import { parseProcessCount } from '../argument-parsers.ts';
import { startDemoDatabase } from '../demo-database.ts';
import { type DemoEnvironment, runDemoScenario } from '../demo-scenario.ts';
import { INVOCATION } from '../invocation.ts';
import type { Io } from '../io.ts';
import { makePinoLog } from '../log.ts';
import { processCount, type ServiceAddress, ServiceGroup } from '../service-group.ts';
import { INTERRUPTED_EXIT_CODE, subscribeToInterrupt } from '../signals.ts';
import { makeStepReporter } from '../step-reporter.ts';
import { setV8Flags } from '../v8-flags.ts';

const HOST = '127.0.0.1';

export function addDemo(program: Command, io: Io): void {
  program
    .command('demo')
    .summary('run a demo home with five devices')
    .description(
      'Starts the service with an embedded database in a temporary folder, connects a simulated home over MQTT, sends a\n' +
        'command, confirms a critical one, runs plans for a goal, and prints each step. Then it keeps running until Ctrl-C.',
    )
    .option('--exit', 'exit after the last step; with 0 if every step succeeded')
    .option(
      '--processes <count>',
      'run the service in several processes on an installed PostgreSQL, and kill each of them in turn',
      parseProcessCount,
      1,
    )
    .action((options: DemoOptions) => demo(io, options));
}

interface DemoOptions {
  exit?: boolean;
  processes?: number | 'auto';
}

async function demo(io: Io, { exit = false, processes = 1 }: DemoOptions): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-demo-'));
  const cleanUp: (() => Promise<unknown>)[] = [];
  const interrupted = new Promise<undefined>((resolve) => subscribeToInterrupt(() => resolve(undefined)));
  let interruptedDuringDemo = false;
  try {
    const environment = await Promise.race([
      startDemo(io, { dataDir, cleanUp, count: processCount(processes) }),
      interrupted,
    ]);
    interruptedDuringDemo = environment === undefined;
    if (environment === undefined || exit) return;
    printNextSteps(io, environment, await signInLink(makeApi(environment.url, environment.token)));
    await interrupted;
  } finally {
    for (const end of cleanUp.reverse()) await end().catch((error: unknown) => io.err(String(error)));
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    // Pending requests of the interrupted scenario are not awaited.
    if (interruptedDuringDemo) process.exit(INTERRUPTED_EXIT_CODE);
  }
}

interface DemoParts {
  dataDir: string;
  cleanUp: (() => Promise<unknown>)[];
  /** Number of processes of the service. */
  count: number;
}

async function startDemo(io: Io, parts: DemoParts): Promise<DemoEnvironment> {
  const { cleanUp, count } = parts;
  const { bold, dim } = io.outColors;
  io.out(`${bold('Twinkeep')} ${dim('· every step uses HTTP, MQTT and WebSocket on this machine')}`);
  const reporter = makeStepReporter(io);
  const { issueToken } = await import('../../main.ts');
  const started = await reporter.step('service', async () => {
    const from = performance.now();
    const { config, group, ...address } = await (count === 1 ? startAlone(io, parts) : startGroup(io, parts));
    const token = await issueToken(config.keys.tokenSigning, { sub: 'demo', email: 'demo@example.com', ttlS: 86_400 });
    const took = ((performance.now() - from) / 1000).toFixed(1);
    const how = group === null ? '' : `, with ${count} processes on one PostgreSQL,`;
    return {
      value: { ...address, token, group },
      message: `${address.url} and ${address.mqttUrl}${how} ${dim(`after ${took} s`)}`,
    };
  });
  const running: RunningDevice[] = [];
  cleanUp.push(() => Promise.all(running.map(({ stop }) => stop())));
  return runDemoScenario(reporter, { ...started, api: makeApi(started.url, started.token), running, cleanUp });
}

interface StartedService extends ServiceAddress {
  config: Config;
  /** Null if it is this process. */
  group: ServiceGroup | null;
}

/** The settings of the demo, whatever the environment has. */
const demoSettings = async (dataDir: string) => ({
  ...{ HOST, PORT: await freePort(8080), MQTT_PORT: await freePort(1883), DATA_DIR: dataDir },
  ...{ SIDECAR: 'embedded', RATE_LIMITS: 'free=0', LOG_LEVEL: 'warn' },
});

async function startAlone(io: Io, { dataDir, cleanUp }: DemoParts): Promise<StartedService> {
  const config = readConfig(await demoSettings(dataDir), true);
  const { start } = await import('../../main.ts');
  const service = await start(config, {
    log: makePinoLog(config.log, io.stderr),
    onFatal: (reason: string) => io.err(reason),
  });
  setV8Flags();
  cleanUp.push(() => service.stop());
  await service.active;
  return { config, group: null, url: service.url, mqttUrl: service.mqttUrl() ?? '' };
}

/** The processes have keys in common, and a PostgreSQL of the demo. */
async function startGroup(io: Io, { dataDir, cleanUp, count }: DemoParts): Promise<StartedService> {
  const database = await startDemoDatabase();
  cleanUp.push(() => database.stop());
  const keys = {
    MASTER_KEY: randomBytes(32).toString('base64'),
    TOKEN_SIGNING_KEY: privateJwk(),
    DEVICE_SIGNING_KEY: privateJwk(),
  };
  // The processes are killed on purpose.
  const settings = { ...(await demoSettings(dataDir)), ...keys, DATABASE_URL: database.url, LOG_LEVEL: 'error' };
  const config = readConfig(settings, true);
  const group = new ServiceGroup(count, { env: settings, node: null, log: makePinoLog(config.log, io.stderr) });
  cleanUp.push(() => group.stop());
  return { config, group, ...(await group.start()) };
}

const privateJwk = (): string => JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }));

/** A one-time sign-in link: useless once it is in a browser history or a log. */
const signInLink = async (api: Api): Promise<string> => (await api.post<{ url: string }>('/v1/auth/link')).url;

function printNextSteps(io: Io, { url, mqttUrl, token, light, lock }: DemoEnvironment, link: string): void {
  const { bold, dim, cyan } = io.outColors;
  const lines = [
    '',
    `${bold('The demo home is running.')} Press Ctrl-C to stop it and delete its data.`,
    '',
    `  Console        ${cyan(link)}`,
    dim('                 one sign-in, valid for ten minutes'),
    `  API reference  ${cyan(`${url}/docs`)}`,
    `  REST           ${cyan(`${url}/v1`)}`,
    `  WebSocket      ${cyan(`${url.replace('http', 'ws')}/ws/state?token=…`)}`,
    `  MQTT           ${cyan(mqttUrl)}`,
    '',
    dim('  # in another terminal'),
    `  export TWINKEEP_URL=${url}`,
    `  export TWINKEEP_TOKEN=${token}`,
    '  curl -s -H "Authorization: Bearer $TWINKEEP_TOKEN" $TWINKEEP_URL/v1/devices',
    '  curl -s -H "Authorization: Bearer $TWINKEEP_TOKEN" -H "Content-Type: application/json" \\',
    `       -d '{"action":"set_brightness","params":{"level":75}}' $TWINKEEP_URL/v1/device/${light}/command`,
    `  ${INVOCATION} command ${lock} unlock`,
    `  ${INVOCATION} watch`,
    '',
  ];
  for (const line of lines) io.out(line);
}

/** The preferred port if it is free, else 0 for any port. */
function freePort(preferred: number): Promise<string> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve('0'));
    probe.listen(preferred, HOST, () => probe.close(() => resolve(String(preferred))));
  });
}

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { readConfig } from '../../config.ts';
import type { RunningDevice } from '../../device/homes/running-device.ts';
import { type Api, makeApi } from '../api.ts';
import { type DemoEnvironment, runDemoScenario } from '../demo-scenario.ts';
import type { Io } from '../io.ts';
import { makeLog } from '../log.ts';
import { INTERRUPTED_EXIT_CODE, onInterrupt } from '../signals.ts';
import { makeStepReporter } from '../step-reporter.ts';

const HOST = '127.0.0.1';

export function addDemo(program: Command, io: Io): void {
  program
    .command('demo')
    .summary('a home with five devices, on a throwaway store')
    .description(
      'Starts the service on an embedded store in a temporary folder, connects a simulated home over MQTT, sends it a\n' +
        'command, confirms a critical one, has a goal become a plan, and shows each step. Then it stays up, to be played with.',
    )
    .option('--exit', 'end after the story: with 0 when every step happened')
    .action(({ exit = false }: { exit?: boolean }) => demo(io, exit));
}

async function demo(io: Io, exit: boolean): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-demo-'));
  const cleanUp: (() => Promise<unknown>)[] = [];
  const interrupted = new Promise<undefined>((resolve) => onInterrupt(() => resolve(undefined)));
  let interruptedAtWork = false;
  try {
    const stage = await Promise.race([startDemo(io, dataDir, cleanUp), interrupted]);
    interruptedAtWork = stage === undefined;
    if (stage === undefined || exit) return;
    printNextSteps(io, stage, await signInLink(makeApi(stage.url, stage.token)));
    await interrupted;
  } finally {
    for (const end of cleanUp.reverse()) await end().catch((error: unknown) => io.err(String(error)));
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    // What the story had begun is not awaited.
    if (interruptedAtWork) process.exit(INTERRUPTED_EXIT_CODE);
  }
}

async function startDemo(io: Io, dataDir: string, cleanUp: (() => Promise<unknown>)[]): Promise<DemoEnvironment> {
  const { bold, dim } = io.outColors;
  io.out(`${bold('Twinkeep')} ${dim('· what follows really happens: HTTP, MQTT and WebSocket on this machine')}`);
  const teller = makeStepReporter(io);
  const started = await teller.step('service', async () => {
    const from = performance.now();
    const config = readConfig(
      {
        ...{ HOST, PORT: await freePort(8080), MQTT_PORT: await freePort(1883), DATA_DIR: dataDir },
        ...{ SIDECAR: 'embedded', RATE_LIMITS: 'free=0', LOG_LEVEL: 'warn' },
      },
      true,
    );
    const { issueToken, start } = await import('../../main.ts');
    const service = await start(config, {
      log: makeLog(config.log, io.stderr),
      onFatal: (reason: string) => io.err(reason),
    });
    cleanUp.push(() => service.stop());
    await service.active;
    const token = await issueToken(config.keys.tokenSigning, { sub: 'demo', email: 'demo@example.com', ttlS: 86_400 });
    const mqttUrl = service.mqttUrl() ?? '';
    const took = ((performance.now() - from) / 1000).toFixed(1);
    return {
      value: { url: service.url, mqttUrl, token },
      told: `${service.url} and ${mqttUrl} ${dim(`after ${took} s`)}`,
    };
  });
  const running: RunningDevice[] = [];
  cleanUp.push(() => Promise.all(running.map(({ stop }) => stop())));
  return runDemoScenario(teller, { ...started, api: makeApi(started.url, started.token), running, cleanUp });
}

/** Signs one browser in, once: what stays in a history or a log is good for nothing. */
const signInLink = async (api: Api): Promise<string> => (await api.post<{ url: string }>('/v1/auth/link')).url;

function printNextSteps(io: Io, { url, mqttUrl, token, light, lock }: DemoEnvironment, link: string): void {
  const { bold, dim, cyan } = io.outColors;
  const lines = [
    '',
    `${bold('The home is alive.')} Ctrl-C ends it, and nothing of it is kept.`,
    '',
    `  Console        ${cyan(link)}`,
    dim('                 signs one browser in, within ten minutes'),
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
    `  npm run -s cli -- command ${lock} unlock`,
    '  npm run -s cli -- watch',
    '',
  ];
  for (const line of lines) io.out(line);
}

/** The usual port where it is free, else any. */
function freePort(usual: number): Promise<string> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve('0'));
    probe.listen(usual, HOST, () => probe.close(() => resolve(String(usual))));
  });
}

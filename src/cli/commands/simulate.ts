import type { SingleBar } from 'cli-progress';
import { type Command, Option } from 'commander';
import type { RunningDevice } from '../../device/homes/running-device.ts';
import { realEnvironment, type SimulatedDevice } from '../../device/homes/simulated-device.ts';
import { createSimulatedDevice } from '../../device/homes/simulated-home.ts';
import { type SigningAlg, signingAlgs } from '../../domain/device-key.ts';
import type { Milliseconds } from '../../domain/values.ts';
import type { Api } from '../api.ts';
import { collectOption, parseDurationS, parseIntegerBetween, parsePositiveNumber } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { subscribeToInterrupt } from '../signals.ts';
import {
  importPast,
  type RegisteredDevice,
  registerSimulatedDevice,
  removeDevice,
  runInParallel,
  startDevice,
} from '../simulation.ts';
import { renderLine } from '../terminal-text.ts';
import { readPublicKey } from './firmware-signing.ts';

interface SimulateOptions {
  devices: number;
  rate?: number;
  home?: string;
  alg?: SigningAlg;
  keep?: boolean;
  firmwareKey?: string[];
  for?: number;
  /** Seconds; `false`: none. */
  history?: number | false;
}

const HOME_NAME = 'Simulated home';
/** Concurrent registrations and removals. */
const REGISTRATION_CONCURRENCY = 8;
const DEFAULT_TICK_S = 5;
/** More devices are a load test, which needs no history. */
const MAX_DEVICES_WITH_PAST = 50;
const DAY_S = 86_400;
const TERMINAL_STATUS_MS = 1_000;
const STATUS_MS = 10_000;

export function addSimulate(program: Command, io: Io): void {
  program
    .command('simulate')
    .summary('run simulated devices')
    .description(
      'Registers simulated lights, locks, thermostats, sensors and covers over REST and connects each over MQTT.\n' +
        'They report changes and carry out commands until Ctrl-C, and are then revoked and deleted, unless --keep.',
    )
    .option('--devices <n>', 'number of devices', parseIntegerBetween(1, 100_000), 10)
    .option(
      '--rate <n>',
      'reports per second of all devices together; by default each device measures every 5 s',
      parsePositiveNumber,
    )
    .option('--home <home>', `home of the devices; by default one named "${HOME_NAME}"`)
    .addOption(new Option('--alg <algorithm>', 'signing algorithm').choices(signingAlgs))
    .option('--keep', 'keep the devices registered')
    .option(
      '--firmware-key <public-key>',
      'install only firmware that this key has signed: PEM file or base64url; repeatable',
      collectOption,
    )
    .option(
      '--history <time>',
      `import a simulated history of so long, such as 30d; by default a day, for up to ${MAX_DEVICES_WITH_PAST} devices`,
      parseDurationS,
    )
    .option('--no-history', 'import no history')
    .option('--for <time>', 'stop after this time', parseDurationS)
    .addHelpText('after', '\nExample:\n  twinkeep simulate --devices 200 --rate 50 --for 10m')
    .action((options: SimulateOptions, command: Command) => simulate(createCliContext(io, command), options));
}

async function simulate(client: CliContext, options: SimulateOptions): Promise<void> {
  const { api, io } = client;
  const firmwareKeys = options.firmwareKey?.map(readPublicKey);
  const ending = waitForEnd(options.for);
  const world = realEnvironment();
  const tickMs = options.rate === undefined ? DEFAULT_TICK_S * 1000 : (options.devices / options.rate) * 1000;
  const homeId = (await client.resolveOption('home', options.home)) ?? (await findOrCreateHome(api));
  const pastMs = pastOf(options);
  const from = performance.now();
  const counts: Counts = { devices: options.devices, online: 0, reports: 0, commands: 0, refused: 0, imported: 0 };
  const registeredDevices: RegisteredDevice[] = [];
  const running: RunningDevice[] = [];
  try {
    const bar = await startProgressBar(io, 'registering', options.devices);
    try {
      await runInParallel(
        Array.from({ length: options.devices }, (_, n) => ({ n, simulated: createSimulatedDevice(world, n) })),
        REGISTRATION_CONCURRENCY,
        async ({ n, simulated }) => {
          if (options.rate !== undefined) reportOnEveryTick(simulated, world.random);
          const registered = await registerSimulatedDevice(api, simulated, {
            homeId,
            ...(options.alg !== undefined && { alg: options.alg }),
          });
          registeredDevices.push(registered);
          if (pastMs !== null) {
            const imported = await importPast(api, registered, { n, pastMs, random: world.random });
            counts.imported += imported;
          }
          const started = await startDevice(registered, world, tickMs, firmwareKeys);
          running.push(started);
          countEvents(started, counts);
          bar.increment();
        },
        () => ending.over,
      );
    } finally {
      bar.stop();
    }
    if (counts.imported > 0) io.err(io.errColors.dim(importedText(counts.imported, performance.now() - from)));
    const status = showStatus(client, counts);
    await ending.reached;
    status.end();
  } finally {
    await Promise.all(running.map(({ stop }) => stop()));
    if (!options.keep) await removeDevices(io, api, registeredDevices);
  }
}

const importedText = (reports: number, ms: Milliseconds): string =>
  `imported ${reports} reports of the past, registered and connected in ${(ms / 1000).toFixed(1)} s`;

/** The length of the history; null: none. */
function pastOf({ history, devices }: SimulateOptions): Milliseconds | null {
  const seconds = history ?? (devices <= MAX_DEVICES_WITH_PAST && DAY_S);
  return seconds === false ? null : seconds * 1000;
}

/** Adds the signal strength to every tick, so that each tick sends a report and `--rate` is met. */
function reportOnEveryTick(simulated: SimulatedDevice, random: () => number): void {
  const { tick } = simulated;
  simulated.tick = (elapsedS) => ({ ...tick(elapsedS), rssi: -Math.round(50 + random() * 20) });
}

async function findOrCreateHome(api: Api): Promise<string> {
  const { homes } = await api.get<{ homes: { id: string; home_name: string }[] }>('/v1/homes', { limit: '200' });
  const known = homes.find(({ home_name }) => home_name === HOME_NAME);
  return known?.id ?? (await api.post<{ id: string }>('/v1/homes', { home_name: HOME_NAME })).id;
}

async function removeDevices(io: Io, api: Api, registeredDevices: readonly RegisteredDevice[]): Promise<void> {
  const bar = await startProgressBar(io, 'removing', registeredDevices.length);
  try {
    await runInParallel(registeredDevices, REGISTRATION_CONCURRENCY, async (registered) => {
      await removeDevice(api, registered);
      bar.increment();
    });
  } finally {
    bar.stop();
  }
}

/** Resolves on Ctrl-C, SIGTERM or after `afterS`. */
function waitForEnd(afterS: number | undefined): { over: boolean; reached: Promise<void> } {
  const ending = { over: false, reached: Promise.resolve() };
  ending.reached = new Promise((resolve) => {
    const end = () => {
      ending.over = true;
      resolve();
    };
    subscribeToInterrupt(end);
    if (afterS !== undefined) setTimeout(end, afterS * 1000).unref();
  });
  return ending;
}

interface Counts {
  devices: number;
  online: number;
  reports: number;
  commands: number;
  refused: number;
  /** Reports of the past. */
  imported: number;
}

function countEvents({ device }: RunningDevice, counts: Counts): void {
  let online = device.online;
  if (online) counts.online++;
  device.on('online', () => {
    if (!online) counts.online++;
    online = true;
  });
  device.on('offline', () => {
    if (online) counts.online--;
    online = false;
  });
  device.on('state', () => counts.reports++);
  device.on('command', () => counts.commands++);
  device.on('refused', () => counts.refused++);
}

/** Updates one status line in place on a terminal, else prints a line every 10 s. */
function showStatus({ io, show, json }: CliContext, counts: Counts): { end(): void } {
  const appends = json || io.stdout.isTTY !== true;
  let previous = { at: performance.now(), reports: counts.reports };
  const update = () => {
    const now = performance.now();
    const rate = Math.round(((counts.reports - previous.reports) / Math.max(1, now - previous.at)) * 1000);
    previous = { at: now, reports: counts.reports };
    show({ ...counts, reports_per_second: rate }, () => {
      const { green, yellow, dim } = io.outColors;
      const online = `${counts.online}/${counts.devices} online`;
      const line = `${counts.online === counts.devices ? green(online) : yellow(online)}  ${counts.reports} reports ${dim(
        `(${rate}/s)`,
      )}  ${counts.commands} commands  ${counts.refused} refused`;
      if (appends) io.out(line);
      else io.stdout.write(`\r\u001b[2K${renderLine(line)}`);
    });
  };
  update();
  const timer = setInterval(update, appends ? STATUS_MS : TERMINAL_STATUS_MS);
  return {
    end() {
      clearInterval(timer);
      update();
      if (!appends) io.stdout.write('\n');
    },
  };
}

/** A progress bar on stderr; prints nothing if that is not a terminal. */
async function startProgressBar(
  io: Io,
  activity: string,
  total: number,
): Promise<Pick<SingleBar, 'increment' | 'stop'>> {
  const { SingleBar } = await import('cli-progress');
  const bar = new SingleBar({
    stream: io.stderr as NodeJS.WriteStream,
    format: `${activity} {bar} {value}/{total}  {eta_formatted}`,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    clearOnComplete: true,
  });
  bar.start(total, 0);
  return bar;
}

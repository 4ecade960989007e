import { SingleBar } from 'cli-progress';
import { type Command, Option } from 'commander';
import type { RunningDevice } from '../../device/homes/running-device.ts';
import { realEnvironment, type SimulatedDevice } from '../../device/homes/simulated-device.ts';
import { createSimulatedDevice } from '../../device/homes/simulated-home.ts';
import type { SigningAlg } from '../../protocol/signature.ts';
import type { Api } from '../api.ts';
import { parseDurationS, parseIntegerBetween, parsePositiveNumber } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { onInterrupt } from '../signals.ts';
import { type RegisteredDevice, registerDevice, removeDevice, runInParallel, startDevice } from '../simulation.ts';

interface SimulateOptions {
  devices: number;
  rate?: number;
  home?: string;
  alg?: SigningAlg;
  keep?: boolean;
  for?: number;
}

const HOME_NAME = 'Simulated home';
/** Registrations at a time. */
const REGISTRATION_CONCURRENCY = 8;
const DEFAULT_TICK_S = 5;
const TERMINAL_STATUS_MS = 1_000;
const STATUS_MS = 10_000;

export function addSimulate(program: Command, io: Io): void {
  program
    .command('simulate')
    .summary('run simulated devices')
    .description(
      'Registers simulated lights, locks, thermostats, sensors and covers through REST, connects each over MQTT of its\n' +
        'own, and lets them live until Ctrl-C: they report what changes and carry out commands. Then they are revoked\n' +
        'and deleted, unless --keep.',
    )
    .option('--devices <n>', 'how many', parseIntegerBetween(1, 100_000), 10)
    .option(
      '--rate <n>',
      'reports a second, all devices together; by default each looks around every 5 s',
      parsePositiveNumber,
    )
    .option('--home <home-id>', `the home they belong to; by default one named "${HOME_NAME}"`)
    .addOption(new Option('--alg <algorithm>', 'how they sign').choices(['hmac-sha256', 'ed25519']))
    .option('--keep', 'leave them registered')
    .option('--for <time>', 'end after this time', parseDurationS)
    .addHelpText('after', '\nExample:\n  twinkeep simulate --devices 200 --rate 50 --for 10m')
    .action((options: SimulateOptions, command: Command) => simulate(createCliContext(io, command), options));
}

async function simulate(client: CliContext, options: SimulateOptions): Promise<void> {
  const { api, io } = client;
  const ending = waitForEnd(options.for);
  const world = realEnvironment();
  const tickMs = options.rate === undefined ? DEFAULT_TICK_S * 1000 : (options.devices / options.rate) * 1000;
  const homeId = options.home ?? (await findOrCreateHome(api));
  const counts: Counts = { devices: options.devices, online: 0, reports: 0, commands: 0, refused: 0 };
  const members: RegisteredDevice[] = [];
  const running: RunningDevice[] = [];
  try {
    const bar = startProgressBar(io, 'registering', options.devices);
    try {
      await runInParallel(
        Array.from({ length: options.devices }, (_, n) => createSimulatedDevice(world, n)),
        REGISTRATION_CONCURRENCY,
        async (simulated) => {
          if (options.rate !== undefined) reportOnEveryTick(simulated, world.random);
          const member = await registerDevice(api, simulated, {
            homeId,
            ...(options.alg !== undefined && { alg: options.alg }),
          });
          members.push(member);
          const started = await startDevice(member, world, tickMs);
          running.push(started);
          countEvents(started, counts);
          bar.increment();
        },
        () => ending.over,
      );
    } finally {
      bar.stop();
    }
    const status = showStatus(client, counts);
    await ending.reached;
    status.end();
  } finally {
    await Promise.all(running.map(({ stop }) => stop()));
    if (!options.keep) await removeDevices(io, api, members);
  }
}

/** So that a rate is one: a look that found nothing reports the strength of the radio. */
function reportOnEveryTick(simulated: SimulatedDevice, random: () => number): void {
  const look = simulated.tick;
  simulated.tick = (elapsedS) => ({ ...look(elapsedS), rssi: -Math.round(50 + random() * 20) });
}

async function findOrCreateHome(api: Api): Promise<string> {
  const { homes } = await api.get<{ homes: { id: string; home_name: string }[] }>('/v1/homes', { limit: '200' });
  const known = homes.find(({ home_name }) => home_name === HOME_NAME);
  return known?.id ?? (await api.post<{ id: string }>('/v1/homes', { home_name: HOME_NAME })).id;
}

async function removeDevices(io: Io, api: Api, members: readonly RegisteredDevice[]): Promise<void> {
  const bar = startProgressBar(io, 'removing', members.length);
  try {
    await runInParallel(members, REGISTRATION_CONCURRENCY, async (member) => {
      await removeDevice(api, member);
      bar.increment();
    });
  } finally {
    bar.stop();
  }
}

/** Ctrl-C, SIGTERM, or the time that was set. */
function waitForEnd(afterS: number | undefined): { over: boolean; reached: Promise<void> } {
  const ending = { over: false, reached: Promise.resolve() };
  ending.reached = new Promise((resolve) => {
    const end = () => {
      ending.over = true;
      resolve();
    };
    onInterrupt(end);
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

/** One line that is kept up to date on a terminal, else a line from time to time. */
function showStatus({ io, show, json }: CliContext, counts: Counts): { end(): void } {
  const still = json || io.stdout.isTTY !== true;
  let before = { at: performance.now(), reports: counts.reports };
  const look = () => {
    const now = performance.now();
    const rate = Math.round(((counts.reports - before.reports) / Math.max(1, now - before.at)) * 1000);
    before = { at: now, reports: counts.reports };
    show({ ...counts, reports_per_second: rate }, () => {
      const { green, yellow, dim } = io.outColors;
      const online = `${counts.online}/${counts.devices} online`;
      const line = `${counts.online === counts.devices ? green(online) : yellow(online)}  ${counts.reports} reports ${dim(
        `(${rate}/s)`,
      )}  ${counts.commands} commands  ${counts.refused} refused`;
      if (still) io.out(line);
      else io.stdout.write(`\r\u001b[2K${line}`);
    });
  };
  look();
  const timer = setInterval(look, still ? STATUS_MS : TERMINAL_STATUS_MS);
  return {
    end() {
      clearInterval(timer);
      look();
      if (!still) io.stdout.write('\n');
    },
  };
}

/** A bar on a terminal; elsewhere nothing. */
function startProgressBar(io: Io, doing: string, total: number): Pick<SingleBar, 'increment' | 'stop'> {
  const bar = new SingleBar({
    stream: io.stderr as NodeJS.WriteStream,
    format: `${doing} {bar} {value}/{total}  {eta_formatted}`,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    clearOnComplete: true,
  });
  bar.start(total, 0);
  return bar;
}

import { type ChildProcess, fork, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { readTokenKey } from '../../src/config.ts';
import { issueToken, type StartOptions } from '../../src/main.ts';
import { type Build, currentBuild } from './builds.ts';
import { eventually } from './clock.ts';
import type { CrashPoint } from './crashing-store.ts';
import type { Deployment } from './deployment.ts';
import { nodeEnv, nodeFlags } from './node-flags.ts';
import { freePort } from './programs.ts';
import type { ApiClient } from './service.ts';
import type { FromService, ToService } from './service-process.ts';

const entry = fileURLToPath(new URL('./service-process.ts', import.meta.url));
const relativeImports = new URL('./relative-imports.ts', import.meta.url).href;

export interface Ports {
  PORT: string;
  MQTT_PORT: string;
}

export interface ExitResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** Log lines of `twinkeep serve`, from the level `LOG_LEVEL` on. */
  stdout: string;
  /** Output on stderr. */
  stderr: string;
}

/** A service in a child process, which ends with the test's process. */
export interface ServiceProcess {
  pid: number;
  /** Resolves with the URL when HTTP responds. */
  listening: Promise<string>;
  /** Resolves when it is the active process and serves. */
  active: Promise<void>;
  exited: Promise<ExitResult>;
  /** Arms a crash point, at which the process kills itself. */
  armCrash(fault: CrashPoint): Promise<void>;
  /** Sets the wall clock of the process to the real time plus `ms`. */
  moveClock(ms: number): Promise<void>;
  kill(signal?: NodeJS.Signals): Promise<ExitResult>;
}

/** Free ports, so that a service can be restarted on the same ones. */
export async function freePorts(): Promise<Ports> {
  const [http, mqtt] = await Promise.all([freePort(), freePort()]);
  return { PORT: `${http}`, MQTT_PORT: `${mqtt}` };
}

/** A service started by `twinkeep serve`, as an operator starts it. */
export interface Served {
  pid: number;
  url: string;
  /** Resolves when it is the active process and serves; rejects if it ends first. */
  active(): Promise<void>;
  /** Resolves when HTTP responds. */
  listening(): Promise<void>;
  exited: Promise<ExitResult>;
  kill(signal?: NodeJS.Signals): Promise<ExitResult>;
}

export function serve(
  deployment: Deployment,
  { PORT, MQTT_PORT }: Ports,
  { build = currentBuild, env = {} }: { build?: Build; env?: Record<string, string> } = {},
): Served {
  const child = spawn(process.execPath, [...nodeFlags, ...build.flags, build.program, 'serve'], {
    env: { ...nodeEnv, ...deployment.env, PORT, MQTT_PORT, ...build.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = exitOf(child);
  const url = `http://127.0.0.1:${PORT}`;
  const waitForOk = async (path: string): Promise<void> => {
    const early = exited.then(({ code, signal, stderr }) => {
      throw new Error(`the service ended (${signal ?? code}): ${stderr}`);
    });
    await Promise.race([early, eventually(async () => (await fetch(url + path)).ok)]);
  };
  return {
    pid: child.pid ?? 0,
    url,
    listening: () => waitForOk('/health/live'),
    active: () => waitForOk('/health/ready'),
    exited,
    kill(signal = 'SIGKILL') {
      child.kill(signal);
      return exited;
    },
  };
}

/** The owner of a new tenant with a home, with a client made by `caller`. */
export async function newOwner(
  { env }: Deployment,
  caller: (token: string) => ApiClient,
  sub = 'owner',
): Promise<ApiClient & { homeId: string; tenantId: string }> {
  const api = caller(await issueToken(readTokenKey(env), { sub, ttlS: 86_400 }));
  const tenant = await api.post('/v1/tenant/register', { tenant_name: 'Owner' });
  const home = await api.post('/v1/homes', { home_name: 'Home' });
  if (tenant.status !== 201 || home.status !== 201) throw new Error(JSON.stringify([tenant.body, home.body]));
  return { ...api, homeId: home.body.id, tenantId: tenant.body.tenant_id };
}

function exitOf(child: ChildProcess): Promise<ExitResult> {
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.on('data', (chunk: Buffer) => {
      output[name] = `${output[name]}${chunk}`.slice(-8_000);
    });
  }
  return new Promise((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal, ...output }));
  });
}

/** Limits with which a service compacts each device several times a second, and never waits for its day to end. */
export const frequentCompaction = {
  START_LIMITS: JSON.stringify({
    history: { dueReports: 3, maxRows: 4, checkMs: 100, sweepMs: 300, maxPauseMs: 0 },
  } satisfies StartOptions['limits']),
};

/** Starts the service with an IPC channel, through which the test can arm a crash point. `onStderr` gets its output. */
export function startServiceProcess(
  deployment: Deployment,
  more: Record<string, string> | Ports = {},
  onStderr?: (chunk: Buffer) => void,
): ServiceProcess {
  const child = fork(entry, [], {
    execArgv: [...nodeFlags, '--import', relativeImports],
    env: { ...nodeEnv, ...deployment.env, ...more },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  if (onStderr !== undefined) child.stderr?.on('data', onStderr);
  const exited = exitOf(child);
  const nextMessage = <M extends string>(member: M): Promise<Extract<FromService, Record<M, unknown>>> =>
    new Promise((resolve, reject) => {
      const onMessage = (message: FromService): void => {
        if (!(member in message)) return;
        child.off('message', onMessage);
        resolve(message as Extract<FromService, Record<M, unknown>>);
      };
      child.on('message', onMessage);
      void exited.then(({ code, signal, stderr }) =>
        reject(new Error(`the service ended (${signal ?? code}): ${stderr}`)),
      );
    });
  const order = async (message: ToService): Promise<void> => {
    const armed = nextMessage('armed');
    child.send(message);
    await armed;
  };
  const listening = nextMessage('listening').then(({ listening: url }) => url);
  const active = nextMessage('active').then(() => {});
  for (const promise of [listening, active]) promise.catch(() => {}); // Rejections are reported to callers that wait for the promise.
  return {
    pid: child.pid ?? 0,
    listening,
    active,
    exited,
    armCrash: (fault) => order({ fault }),
    moveClock: (clockOffsetMs) => order({ clockOffsetMs }),
    kill(signal = 'SIGKILL') {
      child.kill(signal);
      return exited;
    },
  };
}

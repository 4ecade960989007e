import { type ChildProcess, fork, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { readTokenKey } from '../../src/config.ts';
import { issueToken } from '../../src/main.ts';
import { eventually } from './clock.ts';
import type { CrashPoint } from './crashing-store.ts';
import type { Deployment } from './deployment.ts';
import { nodeEnv, nodeFlags } from './node.ts';
import { freePort } from './programs.ts';
import type { ApiClient } from './service.ts';
import type { FromService, ToService } from './service-process.ts';

const entry = fileURLToPath(new URL('./service-process.ts', import.meta.url));
const commandLine = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));

export interface Ports {
  PORT: string;
  MQTT_PORT: string;
}

export interface ExitResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** What it wrote on stderr. */
  stderr: string;
}

/** A service in a process of its own; it ends with the test's. */
export interface ServiceProcess {
  pid: number;
  /** Resolves with the URL when HTTP answers. */
  listening: Promise<string>;
  /** Resolves when it is the active process and serves. */
  active: Promise<void>;
  exited: Promise<ExitResult>;
  /** It will die by itself in that moment. */
  armCrash(fault: CrashPoint): Promise<void>;
  kill(signal?: NodeJS.Signals): Promise<ExitResult>;
}

/** Ports that were free a moment ago: who restarts a service wants it where it was. */
export async function freePorts(): Promise<Ports> {
  const [http, mqtt] = await Promise.all([freePort(), freePort()]);
  return { PORT: `${http}`, MQTT_PORT: `${mqtt}` };
}

/** `twinkeep serve`, as an operator starts it. */
export interface Served {
  pid: number;
  url: string;
  /** Resolves when it is the active process and serves; rejects when it ends before. */
  active(): Promise<void>;
  /** Resolves when HTTP answers. */
  listening(): Promise<void>;
  exited: Promise<ExitResult>;
  kill(signal?: NodeJS.Signals): Promise<ExitResult>;
}

export function serve(deployment: Deployment, ports: Ports): Served {
  const child = spawn(process.execPath, [...nodeFlags, commandLine, 'serve'], {
    env: { ...nodeEnv, ...deployment.env, ...ports },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = ending(child);
  const url = `http://127.0.0.1:${ports.PORT}`;
  const answers = async (path: string): Promise<void> => {
    const early = exited.then(({ code, signal, stderr }) => {
      throw new Error(`the service ended (${signal ?? code}): ${stderr}`);
    });
    await Promise.race([early, eventually(async () => (await fetch(url + path)).ok)]);
  };
  return {
    pid: child.pid ?? 0,
    url,
    listening: () => answers('/health/live'),
    active: () => answers('/health/ready'),
    exited,
    kill(signal = 'SIGKILL') {
      child.kill(signal);
      return exited;
    },
  };
}

/** The owner of a new tenant with a home, who calls as `caller` says. */
export async function newOwner(
  { env }: Deployment,
  caller: (token: string) => ApiClient,
): Promise<ApiClient & { homeId: string; tenantId: string }> {
  const api = caller(await issueToken(readTokenKey(env), { sub: 'owner', ttlS: 86_400 }));
  const tenant = await api.post('/v1/tenant/register', { tenant_name: 'Owner' });
  const home = await api.post('/v1/homes', { home_name: 'Home' });
  if (tenant.status !== 201 || home.status !== 201) throw new Error(JSON.stringify([tenant.body, home.body]));
  return { ...api, homeId: home.body.id, tenantId: tenant.body.tenant_id };
}

function ending(child: ChildProcess): Promise<ExitResult> {
  let words = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    words = `${words}${chunk}`.slice(-8_000);
  });
  return new Promise((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal, stderr: words }));
  });
}

/** The service with a channel to the test, which can choose the moment of its death. */
export function startServiceProcess(deployment: Deployment, more: Record<string, string> | Ports = {}): ServiceProcess {
  const child = fork(entry, [], {
    execArgv: nodeFlags,
    env: { ...nodeEnv, ...deployment.env, ...more },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  const exited = ending(child);
  const said = <M extends string>(member: M): Promise<Extract<FromService, Record<M, unknown>>> =>
    new Promise((resolve, reject) => {
      const hear = (message: FromService): void => {
        if (!(member in message)) return;
        child.off('message', hear);
        resolve(message as Extract<FromService, Record<M, unknown>>);
      };
      child.on('message', hear);
      void exited.then(({ code, signal, stderr }) =>
        reject(new Error(`the service ended (${signal ?? code}): ${stderr}`)),
      );
    });
  const listening = said('listening').then(({ listening: url }) => url);
  const active = said('active').then(() => {});
  for (const promise of [listening, active]) promise.catch(() => {}); // whoever waits for it is told
  return {
    pid: child.pid ?? 0,
    listening,
    active,
    exited,
    async armCrash(fault) {
      const armed = said('armed');
      child.send({ fault } satisfies ToService);
      await armed;
    },
    kill(signal = 'SIGKILL') {
      child.kill(signal);
      return exited;
    },
  };
}

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { copyOf, environmentOf, type ImageStage, imageStages } from './image-steps.ts';

/*
 * Executes the Dockerfile without a container engine, and uses the image as its users do. Each stage has a folder that is
 * its root (chroot), with Node.js, npm and the essential programs of Debian, as the base image has. The command of the
 * image then runs as its user, with a root that cannot be written except for /tmp and the volumes. Not tried are the base
 * image itself and its digest. It needs root, Debian, and permission to mount.
 */

const project = resolve(import.meta.dirname, '..');
const work = mkdtempSync(join(tmpdir(), 'twinkeep-image-'));
/** The user `node` of the base image. */
const USER = { id: 1000, home: '/home/node' };
const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const READY_MS = 60_000;

class StepFailed extends Error {
  override name = 'StepFailed';
}

/** A stage that is being built: its root on this machine, and what its instructions have set. */
interface Built {
  root: string;
  folder: string;
  env: Record<string, string>;
  user: boolean;
  volumes: string[];
  command: string[];
}

const run = (program: string, args: readonly string[]): string => {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 26 });
  if (status !== 0) throw new StepFailed(`${program} ${args.join(' ')}: ${stderr}`);
  return stdout;
};

/** The programs of Debian's essential packages. */
function essentialPrograms(): string[] {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: fields in the syntax of dpkg-query
  const packages = run('dpkg-query', ['--show', '--showformat', '${Essential} ${Package}\n'])
    .split('\n')
    .flatMap((line) => /^yes (\S+)/.exec(line)?.[1] ?? []);
  const files = run('dpkg-query', ['--listfiles', ...packages]).split('\n');
  return [...files.filter((path) => /^(?:\/usr)?\/s?bin\/[^/]+$/.test(path)), '/bin/sh'];
}

/** The root of a stage: what the base image has. */
function makeRoot(name: string): string {
  const root = join(work, name);
  for (const folder of [
    'usr/bin',
    'usr/sbin',
    'usr/lib',
    'usr/local/bin',
    'usr/local/lib/node_modules',
    'etc',
    'dev',
    'proc',
    'tmp',
    'root',
    'home/node',
  ])
    mkdirSync(join(root, folder), { recursive: true });
  for (const folder of ['bin', 'sbin', 'lib']) symlinkSync(`usr/${folder}`, join(root, folder));
  // Not on arm64.
  if (existsSync('/usr/lib64')) {
    cpSync('/usr/lib64', join(root, 'usr/lib64'), { recursive: true, verbatimSymlinks: true });
    symlinkSync('usr/lib64', join(root, 'lib64'));
  }
  for (const path of essentialPrograms())
    if (existsSync(path) && !existsSync(join(root, path))) cpSync(path, join(root, path), { verbatimSymlinks: true });
  cpSync(process.execPath, join(root, 'usr/local/bin/node'));
  const npm = dirname(dirname(run('sh', ['-c', 'readlink -f "$(command -v npm)"']).trim()));
  cpSync(npm, join(root, 'usr/local/lib/node_modules/npm'), { recursive: true, dereference: true });
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'));
  writeFileSync(
    join(root, 'etc/passwd'),
    `root:x:0:0::/root:/bin/sh\nnode:x:${USER.id}:${USER.id}::${USER.home}:/bin/sh\n`,
  );
  writeFileSync(join(root, 'etc/group'), `root:x:0:\nnode:x:${USER.id}:\n`);
  for (const file of ['resolv.conf', 'hosts', 'nsswitch.conf', 'ld.so.cache'])
    if (existsSync(`/etc/${file}`)) cpSync(`/etc/${file}`, join(root, 'etc', file), { dereference: true });
  // The authorities that this machine trusts: a proxy may use a private one.
  const authorities = process.env.NODE_EXTRA_CA_CERTS;
  if (authorities !== undefined) cpSync(authorities, join(root, 'etc/authorities.pem'));
  return root;
}

const extraEnv = (root: string): Record<string, string> =>
  existsSync(join(root, 'etc/authorities.pem')) ? { NODE_EXTRA_CA_CERTS: '/etc/authorities.pem' } : {};

/** The arguments of `unshare` that run a command within the stage. `mounts` are more commands of a shell. */
function within(
  { root, folder, env, user }: Built,
  command: readonly string[],
  mounts: readonly string[] = [],
): string[] {
  const variables = { PATH: searchPath, HOME: user ? USER.home : '/root', ...extraEnv(root), ...env };
  const script = [
    'set -e',
    `mount --bind '${root}' '${root}'`,
    `mount --bind /usr/lib '${root}/usr/lib'`,
    `mount -o remount,bind,ro '${root}/usr/lib'`,
    `mount --rbind /dev '${root}/dev'`,
    `mount -t proc proc '${root}/proc'`,
    ...mounts,
    `exec chroot '${root}' "$@"`,
  ].join('\n');
  const identity = user ? ['setpriv', `--reuid=${USER.id}`, `--regid=${USER.id}`, '--clear-groups'] : [];
  const settings = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  // `env --chdir` takes the place of the runtime's working folder; with -i nothing of this process is inherited.
  const inner = ['env', '-i', `--chdir=${folder}`, ...settings, ...identity, ...command];
  return ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', ...inner];
}

function runStep(stage: Built, text: string): void {
  // The packages that this machine has loaded already; the others come from the registry.
  const cache = join(homedir(), '.npm');
  const mounts = existsSync(cache)
    ? [`mkdir -p '${stage.root}/root/.npm'`, `mount --bind '${cache}' '${stage.root}/root/.npm'`]
    : [];
  const { status } = spawnSync('unshare', within(stage, ['sh', '-c', text], mounts), {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status !== 0) throw new StepFailed(`RUN ${text}: exit ${status}`);
}

/** Copies as the instruction does: the contents of a folder, or files into a folder. */
function copy(stage: Built, text: string, stages: ReadonlyMap<string, Built>): void {
  const { from, sources, target } = copyOf(text);
  const into = resolve('/', stage.folder, target);
  const ignored = new Set(readFileSync(join(project, '.dockerignore'), 'utf8').split('\n').filter(Boolean));
  const origin = from === null ? project : stages.get(from)?.root;
  if (origin === undefined) throw new StepFailed(`COPY ${text}: unknown stage`);
  for (const source of sources) {
    const path = join(origin, source);
    if (!existsSync(path)) throw new StepFailed(`COPY ${text}: ${source} does not exist`);
    const isFolder = lstatSync(path).isDirectory();
    const to = join(stage.root, into, isFolder || !(target.endsWith('/') || target === '.') ? '' : basename(path));
    const options = { recursive: true, verbatimSymlinks: true };
    if (from === null && isFolder && source === '.') {
      for (const name of readdirSync(path)) if (!ignored.has(name)) cpSync(join(path, name), join(to, name), options);
    } else cpSync(path, to, options);
  }
}

function build({ name, steps }: ImageStage, at: number, stages: ReadonlyMap<string, Built>): Built {
  const stage: Built = {
    root: makeRoot(name || `stage-${at}`),
    folder: '/',
    env: {},
    user: false,
    volumes: [],
    command: [],
  };
  for (const { instruction, text } of steps) {
    const from = performance.now();
    if (instruction === 'WORKDIR') {
      stage.folder = resolve('/', stage.folder, text);
      mkdirSync(join(stage.root, stage.folder), { recursive: true });
    } else if (instruction === 'COPY') copy(stage, text, stages);
    else if (instruction === 'RUN') runStep(stage, text);
    else if (instruction === 'ENV') Object.assign(stage.env, environmentOf(text));
    else if (instruction === 'USER') {
      if (text !== 'node') throw new StepFailed(`USER ${text}: the base image has no such user`);
      stage.user = true;
    } else if (instruction === 'VOLUME') stage.volumes.push(text);
    else if (instruction === 'CMD') stage.command = JSON.parse(text);
    console.log(
      `${((performance.now() - from) / 1000).toFixed(1).padStart(6)} s  ${name || 'last stage'}: ${instruction} ${text}`,
    );
  }
  return stage;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Mounts of a root that cannot be written, except for /tmp and the volumes. */
const readOnly = ({ root, volumes }: Built): string[] => [
  ...volumes.flatMap((volume) => [`mount --bind '${root}${volume}' '${root}${volume}'`]),
  `mount -o remount,bind,ro '${root}'`,
  `mount -t tmpfs tmpfs '${root}/tmp'`,
];

async function isReady(url: string, service: ChildProcess): Promise<void> {
  const end = performance.now() + READY_MS;
  while (performance.now() < end) {
    if (service.exitCode !== null) throw new StepFailed(`the command of the image ended with ${service.exitCode}`);
    const answer = await fetch(`${url}/health/ready`).catch(() => null);
    if (answer?.status === 200) return;
    await pause(100);
  }
  throw new StepFailed('the service is not ready');
}

/** Starts the image as `docker run --read-only` does, uses the service, and stops it. */
async function use(image: Built): Promise<void> {
  const [port, mqttPort] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const settings = {
    PORT: `${port}`,
    PUBLIC_URL: url,
    MQTT_PORT: `${mqttPort}`,
    MQTT_PUBLIC_URL: `mqtt://127.0.0.1:${mqttPort}`,
  };
  const container = { ...image, env: { ...image.env, ...settings } };
  const from = performance.now();
  const service = spawn('unshare', within(container, image.command, readOnly(image)), {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  try {
    await isReady(url, service);
    console.log(`${((performance.now() - from) / 1000).toFixed(1).padStart(6)} s  ready`);
    /** `docker exec`: the standard output of a command in the container of the service. */
    const execute = (command: readonly string[]): string => run('unshare', within(container, command, readOnly(image)));
    const token = execute(['node', 'dist/cli/main.js', 'token', '--sub', 'somebody']).trim();
    const authorization = `Bearer ${token}`;
    for (const path of ['/console', '/docs', '/openapi.json', '/changelog', '/v1/auth/me']) {
      const { status } = await fetch(`${url}${path}`, { headers: { authorization } });
      if (status !== 200) throw new StepFailed(`GET ${path}: ${status}`);
    }
    const ended = once(service, 'exit');
    service.kill('SIGTERM');
    const [code] = await ended;
    if (code !== 0) throw new StepFailed(`after SIGTERM the service ended with ${code}`);
    const stored = readdirSync(join(image.root, image.env.DATA_DIR ?? ''));
    if (stored.length === 0) throw new StepFailed('nothing is stored in the volume');
  } finally {
    service.kill('SIGKILL');
  }
}

try {
  const stages = new Map<string, Built>();
  let image: Built | null = null;
  for (const [at, stage] of imageStages(readFileSync(join(project, 'Dockerfile'), 'utf8')).entries()) {
    image = build(stage, at, stages);
    if (stage.name !== '') stages.set(stage.name, image);
  }
  if (image === null) throw new StepFailed('the Dockerfile has no stage');
  await use(image);
  console.log('the image works');
} finally {
  rmSync(work, { recursive: true, force: true });
}

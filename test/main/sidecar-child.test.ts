import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import type { Log } from '../../src/domain/log.ts';
import { type ChildParts, SidecarChild } from '../../src/main/sidecar-child.ts';
import { capabilities, dial, goal } from '../sidecar/fake-service.ts';

const folder = mkdtempSync(join(tmpdir(), 'sidecar-child-'));
const children: SidecarChild[] = [];
const lines: { level: string; fields: Record<string, unknown>; message: string }[] = [];
const line = (level: string) => (fields: object, message: string) =>
  void lines.push({ level, fields: { ...fields }, message });
const log: Log = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
const delays = { firstMs: 5, maxMs: 20, steadyMs: 60_000, endMs: 2_000, checkMs: 60_000 };

function start(more: Partial<ChildParts> = {}) {
  const listened: string[] = [];
  const child = new SidecarChild({
    ...{ listen: null, llm: null, level: 'info', log, delays },
    onListening: () => void listened.push(child.address() ?? ''),
    ...more,
  });
  children.push(child);
  return { child, listened };
}

const program = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

async function until<T>(look: () => T | undefined | false | null | Promise<T>): Promise<T> {
  for (const from = performance.now(); performance.now() - from < 20_000; ) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`not seen: ${JSON.stringify(lines)}`);
}

/** A port that no other program has; the system gives it to nobody else soon. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

afterEach(async () => {
  for (const child of children.splice(0)) await child.stop();
  lines.length = 0;
});
afterEach(() => void rmSync(join(folder, 'told'), { force: true }));

describe('the sidecar as a child process', () => {
  it('listens on the preferred port unless that is taken, and then on a free one', async () => {
    const preferredPort = await freePort();
    const { listened: first } = start({ preferredPort });
    expect(await until(() => first[0])).toBe(`127.0.0.1:${preferredPort}`);
    const { listened: second } = start({ preferredPort });
    expect(await until(() => second[0])).toMatch(/^127\.0\.0\.1:\d+$/);
    expect(second[0]).not.toBe(first[0]);
    const taken = await until(() => lines.find(({ message }) => message.startsWith('preferred port is taken')));
    expect(taken).toMatchObject({ level: 'info', fields: { address: `127.0.0.1:${preferredPort}` } });
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([]);
  });

  it('listens on a port, plans, logs through the service, and ends when stopped', async () => {
    const { child, listened } = start();
    const address = await until(() => listened[0]);
    expect(address).toMatch(/^127\.0\.0\.1:\d+$/);
    const service = dial(address, child.token());
    service.send(capabilities());
    service.sendPerception([goal('c', 'lock the doors')]);
    await service.until(() => service.words('c').includes('node front-door-lock'));
    // Its log uses a different channel than its proposals.
    const sent = await until(() => lines.find(({ message }) => message === 'sidecar listening'));
    expect(sent).toMatchObject({ level: 'info', fields: { part: 'sidecar', address, planner: 'rules' } });
    await child.stop();
    expect(child.address()).toBe(null);
    expect(await service.over).toBeTruthy();
    service.hangUp();
  });

  it('gets the language model settings and nothing else of the environment', async () => {
    const notified = join(folder, 'told');
    const entry = program(
      'tell.mjs',
      `import { writeFileSync } from 'node:fs';
       writeFileSync(${JSON.stringify(notified)}, JSON.stringify(process.env));
       process.send({ listening: '127.0.0.1:1' });
       process.on('SIGTERM', () => process.exit(0));`,
    );
    const llm = { baseUrl: 'http://127.0.0.1:1/v1', model: 'm', apiKey: 'k' };
    const { listened } = start({ entry, llm, listen: '127.0.0.1:7' });
    await until(() => listened[0]);
    const {
      NODE_CHANNEL_FD: _,
      NODE_CHANNEL_SERIALIZATION_MODE: __,
      // Where this process has a compile cache.
      NODE_COMPILE_CACHE: ___,
      ...env
    } = JSON.parse(readFileSync(notified, 'utf8'));
    expect(env).toEqual({
      SIDECAR_ADDRESS: '127.0.0.1:7',
      LOG_LEVEL: 'info',
      LLM_BASE_URL: 'http://127.0.0.1:1/v1',
      LLM_MODEL: 'm',
      LLM_API_KEY: 'k',
    });
  });

  it.each([join(folder, 'compiled'), null])(
    'has a cache of compiled modules that is not the cache of the service: %s',
    async (cache) => {
      const module = new URL('../../src/main/sidecar-child.ts', import.meta.url).href;
      const child = program('cache.mjs', `process.send({ listening: process.env.NODE_COMPILE_CACHE ?? 'none' });`);
      const entry = program(
        'cache-parent.mjs',
        `import { SidecarChild } from ${JSON.stringify(module)};
       const log = { debug() {}, info() {}, warn() {}, error() {} };
       const entry = ${JSON.stringify(child)};
       const child = new SidecarChild({ listen: null, llm: null, level: 'info', log, entry, onListening() {
         process.stdout.write(child.address());
         child.abort();
       } });`,
      );
      const env = { PATH: process.env.PATH, ...(cache && { NODE_COMPILE_CACHE: cache }) };
      const parent = spawn(process.execPath, [entry], { env, stdio: ['ignore', 'pipe', 'inherit'] });
      expect(await text(parent.stdout)).toBe(cache === null ? 'none' : join(cache, 'sidecar'));
    },
  );

  it('is started later if the service has no free file descriptor', async () => {
    const module = new URL('../../src/main/sidecar-child.ts', import.meta.url).href;
    const child = program('listen.mjs', `process.send({ listening: '127.0.0.1:1' });`);
    const entry = program(
      'full-parent.mjs',
      `import { closeSync, openSync } from 'node:fs';
       import { SidecarChild } from ${JSON.stringify(module)};
       const open = [];
       try { for (;;) open.push(openSync('/dev/null')); } catch {}
       const ended = [];
       const log = { debug() {}, info() {}, error() {}, warn({ reason }) {
         ended.push(reason);
         for (const one of open.splice(0)) closeSync(one);
       } };
       const delays = ${JSON.stringify(delays)};
       const entry = ${JSON.stringify(child)};
       const child = new SidecarChild({ listen: null, llm: null, level: 'info', log, entry, delays, onListening() {
         process.stdout.write(ended.join());
         clearInterval(alive);
         child.abort();
       } });
       const alive = setInterval(() => {}, 1_000);`,
    );
    const limited = ['-c', 'ulimit -n 128 && exec "$0" "$1"', process.execPath, entry];
    const parent = spawn('/bin/sh', limited, { env: { PATH: process.env.PATH }, stdio: ['ignore', 'pipe', 'inherit'] });
    expect(await text(parent.stdout)).toMatch(/^spawn .* EMFILE$/);
  });

  it('is started later if the system refuses to start a process', async () => {
    // As without memory, the call throws.
    start({ entry: 'no file\0' });
    await until(() => lines.filter(({ message }) => /restarting/.test(message)).length >= 2);
    expect(lines[0]?.fields.reason).toContain('null bytes');
  });

  it('is restarted when it dies, with a growing pause', async () => {
    const entry = program('die.mjs', 'process.exit(3);');
    start({ entry });
    await until(() => lines.filter(({ message }) => /restarting/.test(message)).length >= 4);
    expect(lines.slice(0, 4).map(({ fields }) => fields)).toEqual(
      [5, 10, 20, 20].map((pause_ms) => ({ code: 3, signal: null, pause_ms })),
    );
  });

  it('listens again after a kill', async () => {
    const entry = program('pid.mjs', `process.send({ listening: 'pid:' + process.pid }); setInterval(() => {}, 1000);`);
    const { child, listened } = start({ entry });
    const first = Number((await until(() => listened[0])).slice(4));
    process.kill(first, 'SIGKILL');
    await until(() => child.address() === null || listened[1]);
    expect(Number((await until(() => listened[1])).slice(4))).not.toBe(first);
  });

  it('is killed and restarted when it hangs; the reference sidecar reports that it is alive', async () => {
    const often = { ...delays, checkMs: 500 };
    const entry = program('hang.mjs', `process.send({ listening: 'pid:' + process.pid }, () => { for (;;) {} });`);
    const { listened } = start({ entry, delays: often });
    const first = Number((await until(() => listened[0])).slice(4));
    await until(() => listened[1]);
    expect(isAlive(first)).toBe(false);
    expect(lines.map(({ message }) => message)).toContain('sidecar hangs; killing it');

    const sent: unknown[] = [];
    const alone = fork(new URL('../../sidecar/main.ts', import.meta.url), [], {
      env: { SIDECAR_ADDRESS: '127.0.0.1:0' },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    alone.on('message', (message) => void sent.push(message));
    await until(() => sent.length >= 2);
    alone.kill('SIGKILL');
    expect(sent[1]).toEqual({ alive: true });
  });

  it('ends with the service, also when the service is killed', async () => {
    const module = new URL('../../src/main/sidecar-child.ts', import.meta.url).href;
    const entry = program(
      'parent.mjs',
      `import { SidecarChild } from ${JSON.stringify(module)};
       const log = { debug() {}, info() {}, warn() {}, error() {} };
       const child = new SidecarChild({ listen: null, llm: null, level: 'info', log, onListening: () => process.stdout.write(child.address() + ' ' + child.token()) });`,
    );
    const parent = spawn(process.execPath, [entry], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [output] = (await once(parent.stdout, 'data')) as [Buffer];
    const [address = '', token = ''] = output.toString().split(' ');
    const service = dial(address, token);
    service.send(capabilities());
    service.sendPerception([goal('c', 'lock the doors')]);
    await service.until(() => service.words('c').length > 0);
    parent.kill('SIGKILL');
    await service.over;
    const port = Number(address.split(':')[1]);
    await until(async () => !(await isOpen(port)));
    service.hangUp();
  });

  it('gets a new token at each start, and not in its arguments or its environment', async () => {
    const entry = program(
      'token.mjs',
      `process.once('message', ({ token }) => {
         const isExposed = JSON.stringify([process.argv, process.env]).includes(token);
         process.send({ listening: [process.pid, token, isExposed].join(' ') });
       });
       setInterval(() => {}, 1000);`,
    );
    const { child, listened } = start({ entry });
    const tokens = new Set<string>();
    for (const n of [0, 1]) {
      const [pid, token = '', isExposed] = (await until(() => listened[n])).split(' ');
      expect([token, isExposed]).toEqual([child.token(), 'false']);
      expect(token).toMatch(/^[\w-]{43}$/);
      tokens.add(token);
      process.kill(Number(pid), 'SIGKILL');
    }
    expect(tokens.size).toBe(2);
  });

  it('is killed when it does not end by itself', async () => {
    const entry = program(
      'stay.mjs',
      `process.on('SIGTERM', () => {}); process.on('disconnect', () => {});
       process.send({ listening: 'pid:' + process.pid }); setInterval(() => {}, 1000);`,
    );
    const { child, listened } = start({ entry, delays: { ...delays, endMs: 100 } });
    const pid = Number((await until(() => listened[0])).slice(4));
    await child.stop();
    expect(isAlive(pid)).toBe(false);
  });

  it('cannot fill memory with a line that does not end', async () => {
    const entry = program(
      'shout.mjs',
      `process.stdout.write('x'.repeat(200_000) + '\\n' + JSON.stringify({ level: 'warn', msg: 'done' }) + '\\n');
       process.send({ listening: 'here' }); setInterval(() => {}, 1000);`,
    );
    start({ entry });
    await until(() => lines.find(({ message }) => message === 'done'));
    expect(Math.max(...lines.map(({ message }) => message.length))).toBeLessThanOrEqual(4_000);
  });
});

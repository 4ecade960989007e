import { connect as connectSocket } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { connect, register } from '../support/device.ts';
import { type ApiClient, makeApiClient, startService } from '../support/service.ts';
import { freePorts, newOwner, type Ports, type Served, serve } from '../support/spawn-service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { Workload } from '../support/workload.ts';

/** A caller that uses whichever process answers. */
function anyOf(urls: readonly string[], token: string): ApiClient {
  const callers = urls.map((url) => makeApiClient(url, token));
  let turn = 0;
  const call =
    <Name extends 'get' | 'post' | 'put' | 'patch' | 'delete'>(name: Name) =>
    async (...args: Parameters<ApiClient[Name]>) => {
      const caller = callers[turn % callers.length] as ApiClient;
      const answer = await (caller[name] as (...all: typeof args) => ReturnType<ApiClient[Name]>)(...args).catch(
        () => null,
      );
      if (answer === null || answer.body?.code === 'STANDBY') turn += 1;
      if (answer === null) throw new Error('nobody answers');
      return answer;
    };
  return {
    token,
    get: call('get'),
    post: call('post'),
    put: call('put'),
    patch: call('patch'),
    delete: call('delete'),
  };
}

const refused = (port: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connectSocket(Number(port), '127.0.0.1');
    socket.on('connect', () => resolve(false));
    socket.on('error', () => resolve(true));
    socket.on('connect', () => socket.destroy());
  });

/** Ends with 0 on SIGTERM. */
async function drained(service: Served): Promise<void> {
  expect(await service.kill('SIGTERM')).toMatchObject({ code: 0 });
}

describe.runIf(inject('postgresUrl'))('two processes on one PostgreSQL', () => {
  let deployment: Deployment;
  let places: Ports[];
  let active: Served;
  let standby: Served;
  let crowd: Workload;

  beforeAll(async () => {
    deployment = (await makePostgresDeployment()) as Deployment;
    const [one, two] = await Promise.all([freePorts(), freePorts()]);
    // Devices find the active process at one address, so a standby opens no MQTT listener.
    places = [one, { ...two, MQTT_PORT: one.MQTT_PORT }];
    active = serve(deployment, places[0] as Ports);
    await active.active();
    standby = serve(deployment, places[1] as Ports);
    const urls = places.map(({ PORT }) => `http://127.0.0.1:${PORT}`);
    crowd = new Workload(await newOwner(deployment, (token) => anyOf(urls, token)));
    await Promise.all([crowd.addDevice(), crowd.addDevice(), crowd.addDevice({ critical: true }), standby.listening()]);
  });
  afterAll(async () => {
    await crowd.close();
    await Promise.all([active.kill(), standby.kill()]);
    await deployment.remove();
  });

  /** After the standby took over: starts a new standby in place of the old process. */
  async function takenOver() {
    await standby.active();
    await crowd.waitForProgress();
    [active, standby] = [standby, serve(deployment, places[0] as Ports)];
    places.reverse();
    await standby.listening();
  }

  it('the second one is a standby: it is live, not ready, and accepts no devices', async () => {
    const ports = await freePorts();
    const second = await startService({ ...deployment.env, ...ports }, { standsBy: true });
    const api = second.api(await second.token('owner'));
    const live = await api.get('/health/live');
    expect([live.status, live.body.status]).toEqual([200, 'alive']);
    const ready = await api.get('/health/ready');
    expect([ready.status, ready.body]).toEqual([503, { status: 'standby' }]);
    for (const path of ['/v1/homes', '/api/v1/status', '/metrics', '/docs', '/nowhere']) {
      const answer = await api.get(path);
      expect(answer).toMatchObject({ status: 503, body: { code: 'STANDBY' } });
      expect(answer.headers.get('content-type')).toMatch('application/problem+json');
      expect(answer.headers.get('x-protocol-version')).toBe('PROTO/3.0');
    }
    expect(await refused(ports.MQTT_PORT)).toBe(true);
    await second.stop();
  });

  it('takes over when the active process is killed', async () => {
    await crowd.waitForProgress();
    await active.kill();
    await takenOver();
  });

  it('takes over when the active process drains, within ten seconds', async () => {
    await crowd.waitForProgress();
    await drained(active);
    await takenOver();
  });

  it('the process that loses the connection of its lock ends at once, with 1', async () => {
    const admin = new pg.Client(deployment.databaseUrl ?? '');
    await admin.connect();
    const ended = active.exited;
    await admin.query(`select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
      where locktype = 'advisory' and datname = current_database()`);
    await admin.end();
    expect(await ended).toMatchObject({ code: 1 });
    await takenOver();
  });

  it('a standby ends on SIGTERM without an error and without affecting the active process', async () => {
    expect(await standby.kill('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
    await crowd.waitForProgress();
  });

  it('through all of this nothing acknowledged was lost, and nothing was applied twice', async () => {
    await crowd.verify();
  });
});

/** A process that reaches its own database through a proxy. */
interface Lonely {
  own: Deployment;
  line: TcpProxy;
  through: Deployment;
  place: Ports;
  service: Served;
  owner: Awaited<ReturnType<typeof newOwner>>;
}

async function lonely(): Promise<Lonely> {
  const own = (await makePostgresDeployment()) as Deployment;
  const line = await startTcpProxy(own.databaseUrl ?? '');
  const through = { ...own, env: { ...own.env, DATABASE_URL: line.proxiedUrl(own.databaseUrl ?? '') } };
  const place = await freePorts();
  const service = serve(through, place);
  await service.active();
  return {
    own,
    line,
    through,
    place,
    service,
    owner: await newOwner(own, (token) => makeApiClient(service.url, token)),
  };
}

// These tests wait for timers of about ten seconds, so they run concurrently.
describe.runIf(inject('postgresUrl'))('a process whose database becomes unreachable', { concurrent: true }, () => {
  const all: Lonely[] = [];
  for (let n = 0; n < 3; n += 1) {
    beforeAll(async () => {
      all.push(await lonely());
    });
  }
  afterAll(async () => {
    for (const { service, line, own } of all) {
      await Promise.all([service.kill(), line.close()]);
      await own.remove();
    }
  });

  it('drains and ends with 0 even if its database does not answer', async () => {
    const { owner, line, service } = all[0] as Lonely;
    const device = await connect(await register(owner));
    line.hold();
    const kept = device.report({ n: 1 });
    const requested = owner.post('/v1/homes', { home_name: 'Late' }).catch(() => null);
    await drained(service);
    await Promise.all([device.close(0), requested]);
    expect(await kept).toBe(false);
  });

  it('ends with 0 when it loses its lock while draining', async () => {
    const { owner, line, service, place } = all[1] as Lonely;
    line.hold();
    const requested = owner.post('/v1/homes', { home_name: 'Late' }).catch(() => null);
    const ended = drained(service);
    await eventually(() => refused(place.PORT));
    line.cut();
    await Promise.all([ended, requested]);
  });

  it('ends with 1 when its database is unreachable, and the next process stands by until it is back', async () => {
    const gone = all[2] as Lonely;
    const { owner, line, through, place } = gone;
    const some = new Workload(owner);
    await Promise.all([some.addDevice(), some.addDevice({ critical: true })]);
    await some.waitForProgress();
    line.cut();
    expect(await gone.service.exited).toMatchObject({ code: 1 });
    const next = serve(through, place);
    gone.service = next;
    await next.listening();
    const ready = await makeApiClient(next.url, '').get('/health/ready');
    expect([ready.status, ready.body]).toEqual([503, { status: 'standby' }]);
    line.restore();
    await next.active();
    await some.waitForProgress();
    await some.verify();
    await some.close();
  });
});

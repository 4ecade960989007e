import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { sizeNames, sourceFiles } from '../support/collections.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { freePort } from '../support/programs.ts';
import { startService, type TestService } from '../support/service.ts';
import { startSidecar, type TestSidecar } from '../support/sidecar.ts';

interface Dashboard {
  panels: { title: string; targets?: { expr: string }[] }[];
}

const deployed = (path: string): string => readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');
const dashboard: Dashboard = JSON.parse(deployed('grafana/twinkeep.json'));
const { prometheus, promtool } = inject('programs');

/** The names that `ConcurrencyLimiter` is given. */
const limiters = ['audit_exports', 'history_exports', 'history_queries'];

/**
 * Collections of components that this service does not run: Redis and its local copy, traces, parts of several nodes, and
 * with an embedded store the sessions of a server.
 */
const elsewhere =
  inject('postgresUrl') === null
    ? /^(redis_|cache_entries$|traced_|cluster_|invalidations?_|database_sessions_)/
    : /^(redis_|cache_entries$|traced_|cluster_|invalidations?_)/;

/** Replaces dashboard variables as Grafana does. */
const filled = (expr: string): string =>
  expr.replaceAll('$job', 'twinkeep').replaceAll('$instance', '.*').replaceAll('$__rate_interval', '1m');

const METRICS_TOKEN = 'MtFx7zq2Vw9Kd3Lp';

let at: TestService;
let sidecar: TestSidecar;
let seen: string;
let theirs: string[];

beforeAll(async () => {
  sidecar = await startSidecar();
  at = await startService({ SIDECAR: 'external', SIDECAR_ADDRESS: sidecar.address, METRICS_TOKEN });
  await eventually(() => at.services.sidecar.connected());
  const { stream } = sidecar;
  stream.send({ contextId: 'nothing', proposal: { case: 'complete', value: {} } });
  await eventually(() => stream.eventsOf('graphStateUpdate').length === 1);
  const owner = await at.owner();
  const registered = await register(owner, { name: 'A light' });
  const device = await connect(registered, { commands: { turn_on: () => ({ state: { on: true } }) } });
  const requested = await owner.post(`/v1/device/${registered.device_id}/command`, { action: 'turn_on' });
  await waitForCommand(owner, requested.body.command_id, ({ status }) => status === 'succeeded');
  await owner.post(`/v1/device/${registered.device_id}/command`, { action: 'fly' });
  await owner.get('/v1/devices/00000000-0000-7000-8000-000000000000');
  await at.api('nonsense').get('/v1/devices');
  // Their first requests load the edges of GraphQL and MCP, whose collections are reported from then on.
  for (const path of ['/graphql', '/mcp']) await fetch(at.url + path, { method: 'POST' });
  await device.close();
  theirs = [owner.tenantId, owner.userId, owner.homeId, registered.device_id, requested.body.command_id];
  seen = (await at.api(METRICS_TOKEN).get('/metrics')).body;
});
afterAll(async () => {
  await at.stop();
  sidecar.kill();
});

/** The members that are read of responses of Prometheus' HTTP API: for a query, the rules and the alerts. */
interface PrometheusAnswer {
  data: {
    result: { value: [number, string] }[];
    groups: { rules: { name: string; health: string }[] }[];
    alerts: { labels: { alertname: string } }[];
  };
}

describe('the metrics', () => {
  it('contain no tenant, user, device or command', () => {
    for (const id of theirs) expect(seen).not.toContain(id);
    expect(seen).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}/);
  });

  it('count commands by status and by reason of refusal', () => {
    expect(seen).toMatch(/^twinkeep_commands_total\{status="succeeded",code="none"\} 1$/m);
    expect(seen).toMatch(/^twinkeep_commands_total\{status="rejected",code="ACTION_NOT_IN_MANIFEST"\} 1$/m);
  });

  it('count requests and their duration by route pattern', () => {
    expect(seen).toMatch(/^twinkeep_http_requests_total\{route="\/devices\/\{id\}",method="GET",status="404"\} 1$/m);
    expect(seen).toMatch(/^twinkeep_http_requests_total\{route="\/devices",method="GET",status="401"\} 1$/m);
    expect(seen).toMatch(/^twinkeep_http_request_duration_seconds_count\{route="\/devices\/\{id\}",method="GET"\} 1$/m);
  });

  it('count the entries of collections, and those of work in progress disappear with the work', () => {
    for (const name of ['locks', 'outbox_under_way', 'timers_firing', 'presence_sessions']) {
      expect(seen).toContain(`twinkeep_collection_entries{collection="${name}"} 0`);
    }
    expect(seen).toContain('twinkeep_collection_entries{collection="heard_devices"} 1');
  });

  it('cover every collection of the service', () => {
    const reported = [...seen.matchAll(/^twinkeep_collection_entries\{collection="(\w+)"\}/gm)].map(([, name]) => name);
    const expected = sourceFiles()
      .flatMap(sizeNames)
      .flatMap((name) => (name === '[this.#kind]' ? limiters : name))
      .filter((name) => !elsewhere.test(name));
    expect(expected.length).toBeGreaterThan(60);
    expect(reported.sort()).toEqual(expected.sort());
  });

  it('show that a process that has the database to itself runs all shards', () => {
    expect(seen).toMatch(/^twinkeep_shards_open 256$/m);
    expect(seen).toMatch(/^twinkeep_shards_handed_over_total 0$/m);
    expect(seen).toMatch(/^twinkeep_nodes_alive 1$/m);
    expect(seen).toMatch(/^twinkeep_nodes_draining 0$/m);
    expect(seen).toMatch(/^twinkeep_shards_not_open 0$/m);
    expect(seen).toMatch(/^twinkeep_shards_unreadable 0$/m);
    expect(seen).toMatch(/^twinkeep_migrations_waiting 0$/m);
  });

  it('count the prepared statements', () => {
    expect(seen).toMatch(/^twinkeep_prepared_statements [1-9]\d*$/m);
  });

  it('include every metric that the dashboard and the alerts use', () => {
    const requested = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    const rules = [...deployed('prometheus/rules.yml').matchAll(/\b(twinkeep|nodejs|process)_\w+/g)].map(
      ([name]) => name,
    );
    const names = new Set([
      ...requested.flatMap((expr) => expr.match(/\b(twinkeep|nodejs|process)_\w+/g) ?? []),
      ...rules,
    ]);
    expect(names.size).toBeGreaterThan(30);
    const notified = new Set([...seen.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
    const missing = [...names].filter(
      (name) => !notified.has(name) && !notified.has(name.replace(/_(bucket|sum|count)$/, '')),
    );
    expect(missing).toEqual([]);
  });
});

describe.runIf(promtool)('promtool', () => {
  it('accepts the metrics, the rules and the configuration', () => {
    const check = (args: string[], input?: string): string =>
      execFileSync(promtool as string, ['check', ...args], { input, encoding: 'utf8', stdio: 'pipe' });
    expect(check(['metrics'], seen)).toBe('');
    const folder = new URL('../../deploy/prometheus/', import.meta.url).pathname;
    expect(check(['config', join(folder, 'prometheus.yml')])).toContain('SUCCESS');
  });
});

describe.runIf(prometheus)('a Prometheus server', () => {
  it('scrapes the service, and evaluates every query of the dashboard and every rule', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'twinkeep-prometheus-'));
    const port = await freePort();
    writeFileSync(join(folder, 'rules.yml'), deployed('prometheus/rules.yml'));
    writeFileSync(join(folder, 'metrics-token'), `${METRICS_TOKEN}\n`);
    writeFileSync(
      join(folder, 'prometheus.yml'),
      deployed('prometheus/prometheus.yml')
        .replaceAll('15s', '1s')
        .replace('127.0.0.1:8080', new URL(at.url).host)
        .replace('# authorization:', 'authorization:')
        .replace('#   credentials_file:', '  credentials_file:'),
    );
    const child = spawn(
      prometheus as string,
      [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: 'ignore' },
    );
    try {
      const request = async (path: string) => {
        const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
        return (await answer.json()) as PrometheusAnswer;
      };
      const query = (text: string) => request(`query?query=${encodeURIComponent(text)}`);
      // Prometheus waits one second for a response: one may be late.
      await eventually(
        async () => Number((await query('sum_over_time(up{job="twinkeep"}[1m])')).data.result[0]?.value[1]) >= 3,
      );

      const empty: string[] = [];
      for (const { title, targets = [] } of dashboard.panels) {
        for (const { expr } of targets) {
          const answer = await query(filled(expr));
          expect(answer, `${title}: ${expr}`).toMatchObject({ status: 'success' });
          if (answer.data.result.length === 0) empty.push(title);
        }
      }
      // No refusals or failures occurred during the test, so these panels have no data.
      const quiet = ['Requests over the rate limit', 'Refused messages by code', 'Unsuccessful commands'];
      expect(empty.filter((title) => !quiet.includes(title))).toEqual([]);
      const { data } = await request('rules');
      const rules = data.groups[0]?.rules ?? [];
      await eventually(async () =>
        (await request('rules')).data.groups[0]?.rules.every((rule) => rule.health === 'ok'),
      );
      expect(rules.length).toBe(deployed('prometheus/rules.yml').match(/- alert:/g)?.length);
      const { alerts } = (await request('alerts')).data;
      const ofTheMachine = ['TwinkeepDown', 'TwinkeepEventLoopLags'];
      expect(alerts.filter(({ labels }) => !ofTheMachine.includes(labels.alertname))).toEqual([]);
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

import { execFile, spawnSync } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { settingsTable } from '../../src/config/settings.ts';
import { readConfig } from '../../src/config.ts';
import { buildOpenApi } from '../../src/edges/rest/openapi.ts';
import { systemRoutes } from '../../src/edges/rest/routes/system.ts';
import { routeGroups } from '../../src/edges/rest/routes.ts';

/* The chart as Helm renders it, against the types of Kubernetes, the settings of the service and its routes. */

const { helm } = inject('programs');
const root = fileURLToPath(new URL('../..', import.meta.url));
const chart = join(root, 'deploy/helm/twinkeep');
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-chart-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// biome-ignore lint/suspicious/noExplicitAny: manifests are compared with the types of Kubernetes by the compiler
type Manifest = any;

const tools = dirname(helm ?? '');
const parseAll = (text: string): Manifest[] => {
  const { parseAllDocuments } = createRequire(join(tools, 'package.json'))('yaml');
  return parseAllDocuments(text).map((document: { toJS(): Manifest }) => document.toJS());
};

const required = {
  ...{ publicUrl: 'https://twinkeep.example.com', mqttPublicUrl: 'mqtt://mqtt.example.com' },
  image: { tag: 'built' },
};
const examples: Record<string, Record<string, unknown>> = {
  'the smallest values': required,
  'all values': {
    ...required,
    mqttPublicUrl: 'mqtts://mqtt.example.com:8883',
    replicas: 5,
    image: { repository: 'registry.example.com/twinkeep', tag: '1.2.3' },
    imagePullSecrets: [{ name: 'registry' }],
    secrets: { redis: { name: 'redis' }, metrics: { name: 'metrics' }, tls: { name: 'tls' } },
    settings: {
      ...{ RATE_LIMITS: 'free=60', MQTT_MAX_CONNECTIONS: '5000000', TRUSTED_PROXIES: '10.0.0.0/8' },
      ...{ OIDC_ISSUER: 'https://id.example.com', OIDC_AUDIENCE: 'twinkeep', OIDC_CLIENT_ID: 'twinkeep' },
    },
    extraEnv: [{ name: 'OIDC_CLIENT_SECRET', valueFrom: { secretKeyRef: { name: 'oidc', key: 'secret' } } }],
    host: '::',
    stopDelaySeconds: 300,
    service: { mqtt: { plain: false, annotations: { a: 'b' } }, http: { annotations: { a: 'b' } } },
    ingress: {
      ...{ enabled: true, className: 'nginx', host: 'twinkeep.example.com', tlsSecretName: 'page' },
      annotations: { 'nginx.ingress.kubernetes.io/proxy-read-timeout': '86400' },
    },
    serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
    podAnnotations: { a: 'b' },
    podLabels: { c: 'd' },
    nodeSelector: { e: 'f' },
    tolerations: [{ key: 'g', operator: 'Exists', effect: 'NoSchedule' }],
    affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
    priorityClassName: 'high',
  },
  'one node without policies': {
    ...required,
    replicas: 1,
    networkPolicy: { enabled: false },
    service: { mqtt: { type: 'ClusterIP' }, http: { type: 'LoadBalancer' } },
  },
};

function run(values: unknown, command: string, ...args: string[]) {
  const file = join(folder, 'values.json');
  writeFileSync(file, JSON.stringify(values));
  const env = { PATH: process.env.PATH, HOME: folder };
  const named = command === 'template' ? [command, 'test', chart, '--namespace', 'devices'] : [command, chart];
  const result = spawnSync(helm as string, [...named, '-f', file, ...args], { encoding: 'utf8', env });
  return { status: result.status, output: result.stdout + result.stderr, stdout: result.stdout };
}

function render(values: unknown): Manifest[] {
  const { status, stdout, output } = run(values, 'template');
  expect(status, output).toBe(0);
  return parseAll(stdout);
}

const modules: Record<string, string> = {
  StatefulSet: 'apps/v1',
  Service: 'core/v1',
  PodDisruptionBudget: 'policy/v1',
  NetworkPolicy: 'networking/v1',
  Ingress: 'networking/v1',
};
/** `apiVersion` of the kinds: the types do not require it. */
const versions: Record<string, string> = {
  ...{ StatefulSet: 'apps/v1', Service: 'v1', PodDisruptionBudget: 'policy/v1' },
  ...{ NetworkPolicy: 'networking.k8s.io/v1', Ingress: 'networking.k8s.io/v1' },
  ServiceMonitor: 'monitoring.coreos.com/v1',
};

/** What the compiler reports about these objects as literals of their types: unknown, missing and wrong members. */
async function typeErrors(manifests: readonly Manifest[]): Promise<string> {
  const lines = manifests.flatMap((manifest, n) => {
    const from = modules[manifest.kind];
    if (from === undefined) return [];
    const type = `import('kubernetes-types/${from}').${manifest.kind}`;
    return [`export const manifest${n}: ${type} = ${JSON.stringify(manifest, null, 1)};`];
  });
  const project = mkdtempSync(join(folder, 'types-'));
  writeFileSync(join(project, 'manifests.ts'), lines.join('\n'));
  const paths = { 'kubernetes-types/*': [join(tools, 'node_modules/kubernetes-types/*')] };
  const compilerOptions = { strict: true, noEmit: true, module: 'nodenext', skipLibCheck: true, types: [], paths };
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['manifests.ts'] }));
  const compiler = join(root, 'node_modules/tsc7/bin/tsc');
  return promisify(execFile)(process.execPath, [compiler, '-p', project]).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
}

const of = (manifests: readonly Manifest[], kind: string): Manifest[] => manifests.filter((one) => one.kind === kind);
const isPartOf = (part: Record<string, string>, whole: Record<string, string>): boolean =>
  Object.entries(part).every(([name, value]) => whole[name] === value);

const privateJwk = (): string => JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }));
/** What the Secrets contain in a cluster. */
const secrets: Record<string, string> = {
  DATABASE_URL: 'postgres://twinkeep:secret@db/twinkeep',
  MASTER_KEY: randomBytes(32).toString('base64'),
  TOKEN_SIGNING_KEY: privateJwk(),
  DEVICE_SIGNING_KEY: privateJwk(),
  REDIS_URL: 'redis://redis',
  METRICS_TOKEN: 'MtFx7zq2Vw9Kd3Lp',
  secret: 'secret',
};

/** The environment of the container in a pod with this name. */
function environmentOf(container: Manifest, podName: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const { name, value, valueFrom } of container.env) {
    if (valueFrom?.fieldRef !== undefined) env[name] = podName;
    else if (valueFrom !== undefined) env[name] = secrets[valueFrom.secretKeyRef.key] ?? '';
    else env[name] = String(value).replace(/\$\((\w+)\)/g, (_, other) => env[other] as string);
  }
  return env;
}

/** The environment with a certificate in place of the Secret that is mounted. */
function withCertificate(env: Record<string, string>, container: Manifest): Record<string, string> {
  if (env.TLS_CERT === undefined) return env;
  const { mountPath } = container.volumeMounts.find(({ name }: Manifest) => name === 'tls');
  expect([env.TLS_CERT, env.TLS_KEY]).toEqual([`${mountPath}/tls.crt`, `${mountPath}/tls.key`]);
  const tls = join(root, 'test/support/tls');
  return { ...env, TLS_CERT: join(tls, 'localhost.crt'), TLS_KEY: join(tls, 'localhost.key') };
}

describe.runIf(helm)('the Helm chart', () => {
  describe.each(Object.entries(examples))('with %s', (_, values) => {
    const manifests = helm === null ? [] : render(values);
    const [set] = of(manifests, 'StatefulSet');
    const [container] = set?.spec.template.spec.containers ?? [];
    const podLabels = set?.spec.template.metadata.labels;
    const services = of(manifests, 'Service');
    const portNames = container?.ports.map(({ name }: Manifest) => name);

    it('passes the checks of Helm', () => {
      expect(run(values, 'lint', '--strict')).toMatchObject({ status: 0 });
    });

    it('renders objects of the types of Kubernetes', async () => {
      for (const { kind, apiVersion } of manifests) expect(apiVersion).toBe(versions[kind]);
      expect(await typeErrors(manifests)).toBe('');
    });

    it('gives the service an environment that it accepts, and the ports of the container', () => {
      const env = environmentOf(container, 'test-twinkeep-1');
      const known = new Set<string>(['POD_NAME', ...settingsTable.map(({ name }) => name)]);
      expect(Object.keys(env).filter((name) => !known.has(name))).toEqual([]);
      expect(new Set(Object.keys(env)).size).toBe(container.env.length);
      const config = readConfig(withCertificate(env, container), false);
      const ports = Object.fromEntries(container.ports.map((port: Manifest) => [port.name, port.containerPort]));
      expect(ports).toEqual({
        ...{ http: config.port, nodes: config.node?.port },
        ...(config.mqttPort !== null && { mqtt: config.mqttPort }),
        ...(config.mqttTlsPort !== null && { 'mqtt-tls': config.mqttTlsPort }),
      });
      expect(config.node?.host).toBe(`test-twinkeep-1.${set.spec.serviceName}.devices.svc.cluster.local`);
      expect(config.artifactStore).toBe('database');
    });

    it('has probes on routes of the service, with the scheme that it serves', () => {
      const routes = systemRoutes.map(({ path }) => path);
      const { startupProbe, livenessProbe, readinessProbe } = container;
      for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe]) {
        expect(routes).toContain(httpGet.path);
        expect(httpGet.port).toBe('http');
        expect(httpGet.scheme).toBe(portNames.includes('mqtt-tls') ? 'HTTPS' : 'HTTP');
      }
      expect(readinessProbe.httpGet.path).toBe('/health/ready');
    });

    it('gives a pod the time to hand over its tenants', () => {
      const { STOP_DELAY } = environmentOf(container, 'pod');
      const { terminationGracePeriodSeconds } = set.spec.template.spec;
      // The process ends within ten seconds after the delay.
      expect(terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(STOP_DELAY) + 15);
      const { periodSeconds, failureThreshold } = container.readinessProbe;
      expect(Number(STOP_DELAY)).toBeGreaterThan(periodSeconds * failureThreshold);
      expect(set.spec.updateStrategy).toEqual({ type: 'RollingUpdate' });
    });

    it('selects its pods in every object, and names ports that they have', () => {
      const selectors = [
        ...[set.spec.selector.matchLabels, ...services.map(({ spec }) => spec.selector)],
        ...of(manifests, 'PodDisruptionBudget').map(({ spec }) => spec.selector.matchLabels),
        ...of(manifests, 'NetworkPolicy').map(({ spec }) => spec.podSelector.matchLabels),
        ...set.spec.template.spec.topologySpreadConstraints.map(
          ({ labelSelector }: Manifest) => labelSelector.matchLabels,
        ),
      ];
      for (const selector of selectors) {
        expect(Object.keys(selector)).toContain('app.kubernetes.io/instance');
        expect(isPartOf(selector, podLabels)).toBe(true);
      }
      const targets = services.flatMap(({ spec }) => spec.ports.map(({ targetPort }: Manifest) => targetPort));
      expect(targets.toSorted()).toEqual(portNames.toSorted());
      const headless = services.find(({ metadata }) => metadata.name === set.spec.serviceName);
      expect(headless.spec).toMatchObject({ clusterIP: 'None', publishNotReadyAddresses: true });
    });

    it('mounts what the service writes to', () => {
      const { volumes, securityContext } = set.spec.template.spec;
      const mounted = container.volumeMounts.map(({ name }: Manifest) => name);
      expect(mounted).toEqual(volumes.map(({ name }: Manifest) => name));
      const [, dataDir] = /DATA_DIR=(\S+)/.exec(readFileSync(join(root, 'Dockerfile'), 'utf8')) ?? [];
      expect(container.volumeMounts[0]).toEqual({ name: 'data', mountPath: dataDir });
      expect(securityContext.runAsNonRoot && container.securityContext.readOnlyRootFilesystem).toBe(true);
    });
  });

  it('opens the port between the nodes to its pods alone, and has one of plain MQTT only if it is wanted', () => {
    for (const [example, expected] of [
      ['the smallest values', ['http', 'mqtt']],
      ['all values', ['http', 'mqtt-tls']],
    ] as const) {
      const values = examples[example];
      const manifests = render(values);
      const [{ spec }] = of(manifests, 'NetworkPolicy');
      const open = spec.ingress.filter(({ from }: Manifest) => from === undefined);
      const names = open.flatMap(({ ports }: Manifest) => ports.map(({ port }: Manifest) => port));
      expect(names).toEqual(expected);
      const [set] = of(manifests, 'StatefulSet');
      const env = environmentOf(set.spec.template.spec.containers[0], 'pod');
      expect(env.MQTT_PORT).toBe(names.includes('mqtt') ? '1883' : 'off');
      const [closed] = spec.ingress.filter(({ from }: Manifest) => from !== undefined);
      expect(closed.from).toEqual([{ podSelector: spec.podSelector }]);
      expect(closed.ports).toEqual([{ port: 'nodes' }]);
    }
  });

  it('is read by Prometheus at the pods of one Service, and its ingress leads there', () => {
    const manifests = render(examples['all values']);
    const [monitor] = of(manifests, 'ServiceMonitor');
    const selected = of(manifests, 'Service').filter(({ metadata }) =>
      isPartOf(monitor.spec.selector.matchLabels, metadata.labels),
    );
    expect(selected).toHaveLength(1);
    const [endpoint] = monitor.spec.endpoints;
    expect(selected[0].spec.ports.map(({ name }: Manifest) => name)).toEqual([endpoint.port]);
    expect(Object.keys(buildOpenApi(routeGroups).paths as object)).toContain(endpoint.path);
    expect(endpoint.authorization).toEqual({ type: 'Bearer', credentials: { name: 'metrics', key: 'METRICS_TOKEN' } });
    const [ingress] = of(manifests, 'Ingress');
    const { service } = ingress.spec.rules[0].http.paths[0].backend;
    expect(service).toEqual({ name: selected[0].metadata.name, port: { name: endpoint.port } });
  });

  it('has a budget for disruptions unless there is one node', () => {
    expect(of(render(examples['the smallest values']), 'PodDisruptionBudget')).toHaveLength(1);
    expect(of(render(examples['one node without policies']), 'PodDisruptionBudget')).toEqual([]);
  });

  it.each([
    ['publicUrl is required', { ...required, publicUrl: '' }],
    ['mqttPublicUrl is required', { ...required, mqttPublicUrl: '' }],
    ['image.tag is required', { ...required, image: {} }],
    // A pod that is a standby, starts or stops answers there.
    ["'path' not allowed", { ...required, probes: { readiness: { path: '/health/live' } } }],
    [
      'extraEnv has names that the chart or settings set: LOG_LEVEL',
      { ...required, settings: { LOG_LEVEL: 'warn' }, extraEnv: [{ name: 'LOG_LEVEL', value: 'debug' }] },
    ],
    ["invalid propertyName 'RATE_LIMIT'", { ...required, settings: { RATE_LIMIT: 'free=1' } }],
    ["invalid propertyName 'STOP_DELAY'", { ...required, settings: { STOP_DELAY: '1' } }],
    // Helm writes large numbers of a file as 5e+06.
    ["at '/settings/MQTT_MAX_CONNECTIONS': got number", { ...required, settings: { MQTT_MAX_CONNECTIONS: 5_000_000 } }],
    ["'replica' not allowed", { ...required, replica: 3 }],
    ['no port of MQTT is left', { ...required, service: { mqtt: { plain: false } } }],
    ['ingress.host is required', { ...required, ingress: { enabled: true } }],
  ])('is refused with a reason: %s', (reason, values) => {
    const { status, output } = run(values, 'template');
    expect(output).toContain(reason);
    expect(status).toBe(1);
  });

  it('takes every setting that it does not set itself, and no secret as a text', () => {
    const schema = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8'));
    const [set] = of(render(examples['all values']), 'StatefulSet');
    const own = Object.keys(environmentOf(set.spec.template.spec.containers[0], 'pod'));
    const given = Object.keys(examples['all values']?.settings as object);
    const secret = ['OIDC_CLIENT_SECRET', 'LLM_API_KEY'];
    // The folder is a volume.
    const free = settingsTable
      .map(({ name }) => name)
      .filter((name) => name !== 'DATA_DIR' && !secret.includes(name) && (given.includes(name) || !own.includes(name)));
    expect(schema.properties.settings.propertyNames.enum).toEqual(free);
  });

  it('refuses every variable that it sets itself as an additional one', () => {
    const [set] = of(render(examples['all values']), 'StatefulSet');
    const other = [...Object.keys(examples['all values']?.settings as object), 'OIDC_CLIENT_SECRET'];
    const own = Object.keys(environmentOf(set.spec.template.spec.containers[0], 'pod')).filter(
      (name) => !other.includes(name),
    );
    const extraEnv = own.map((name) => ({ name, value: '1' }));
    expect(run({ ...required, extraEnv }, 'template')).toMatchObject({
      status: 1,
      output: expect.stringContaining(`extraEnv has names that the chart or settings set: ${own.join(', ')}\n`),
    });
  });

  it('keeps the addresses of clients behind a balancer of HTTP', () => {
    const policyOf = (values: unknown) =>
      of(render(values), 'Service').find(({ metadata }) => metadata.name === 'test-twinkeep').spec
        .externalTrafficPolicy;
    expect(policyOf(required)).toBeUndefined();
    expect(policyOf({ ...required, service: { http: { type: 'LoadBalancer' } } })).toBe('Local');
  });

  it('has the version of the package', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const [{ appVersion }] = parseAll(readFileSync(join(chart, 'Chart.yaml'), 'utf8'));
    expect(appVersion).toBe(version);
  });

  it('is checked against types that find an unknown, a missing and a wrong member', async () => {
    const [set] = of(render(required), 'StatefulSet');
    expect(await typeErrors([{ ...set, spec: { ...set.spec, replica: 3 } }])).toContain('"replica"');
    expect(await typeErrors([{ ...set, spec: { ...set.spec, replicas: '3' } }])).toContain("'string'");
    const { serviceName: _, ...spec } = set.spec;
    expect(await typeErrors([{ ...set, spec }])).toContain("'serviceName'");
  });
});

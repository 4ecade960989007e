import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, type Environment } from '../src/config/setting-readers.ts';
import { type SettingName, settingsTable } from '../src/config/settings.ts';
import { httpUrl, mqttUrl, readConfig } from '../src/config.ts';
import { defaultQuotas } from '../src/domain/quotas.ts';
import { expectNoLibraryText } from './support/error-texts.ts';

const folder = mkdtempSync(join(tmpdir(), 'twinkeep-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const jwk = () => JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }));
/** Keys given as variables, so that reading it leaves no files. */
const keys = { MASTER_KEY: randomBytes(32).toString('base64'), TOKEN_SIGNING_KEY: jwk(), DEVICE_SIGNING_KEY: jwk() };
const read = (env: Environment, terminal = false) => readConfig({ DATA_DIR: folder, ...keys, ...env }, terminal);

function problem(env: Environment): ConfigError {
  try {
    read(env);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('the configuration was accepted');
}

const tls = { TLS_CERT: 'test/support/tls/localhost.crt', TLS_KEY: 'test/support/tls/localhost.key' };

describe('an empty environment', () => {
  it('gives the defaults of the contract', () => {
    expect(read({ DATA_DIR: '' })).toMatchObject({
      host: '127.0.0.1',
      port: 8080,
      mqttPort: 1883,
      mqttTlsPort: null,
      tls: null,
      publicUrl: null,
      mqttPublicUrl: null,
      trustedProxies: [],
      corsOrigins: [],
      hstsMaxAgeS: 31_536_000,
      mqttUsersNeedTls: false,
      dataDir: join(process.cwd(), 'data'),
      databaseUrl: null,
      redisUrl: null,
      stopDelayS: 0,
      oidc: null,
      sidecar: { mode: 'embedded', address: null },
      llm: null,
      rateLimits: { free: 60, pro: 300 },
      defaultTier: 'free',
      ...{ credentialRateLimits: {}, addressRateLimit: 0, quotas: defaultQuotas },
      historyRetention: { base: { samples: 7, rollups: 730 }, byTier: {} },
      historyBytes: 64 * 1024 ** 2,
      sessionMaxAgeS: 43_200,
      deviceRate: { perSecond: 50, burst: 500 },
      mqttMaxConnections: 20_000,
      maxLiveActors: 150_000,
      betaDeviceLimit: 0,
      retentionDays: { commands: 90, journal: 365 },
      log: { level: 'info', format: 'json' },
      otlpEndpoint: null,
      metricsToken: null,
    });
  });

  it('writes logs for people on a terminal, unless set otherwise', () => {
    expect(read({}, true).log.format).toBe('pretty');
    expect(read({ LOG_FORMAT: 'json' }, true).log.format).toBe('json');
  });

  it('treats an empty variable as unset', () => {
    expect(read({ PORT: '', TLS_CERT: ' ' })).toMatchObject({ port: 8080, tls: null });
  });
});

describe('a configuration', () => {
  it('is deeply frozen', () => {
    const config = read({});
    expect(Object.isFrozen(config)).toBe(true);
    expect(Object.isFrozen(config.rateLimits)).toBe(true);
    expect(Object.isFrozen(config.log)).toBe(true);
  });

  it('reads exactly the variables of the table', () => {
    const requested = new Set<string>();
    const all: Environment = { ...keys, DATA_DIR: folder, OIDC_ISSUER: 'https://id.example', OIDC_AUDIENCE: 'a' };
    const watched = new Proxy(all, {
      get(env, name: string) {
        requested.add(name);
        return env[name];
      },
    });
    readConfig(watched, false);
    expect([...requested].sort()).toEqual(settingsTable.map((setting) => setting.name).sort());
  });

  it('hides keys when it is printed', () => {
    const printed = `${JSON.stringify(read({}))}`;
    expect(printed).not.toContain(keys.MASTER_KEY.slice(0, 20));
    expect(printed).not.toContain((JSON.parse(keys.TOKEN_SIGNING_KEY) as { d: string }).d);
  });

  it('accepts ports of 0 for tests', () => {
    expect(read({ PORT: '0', MQTT_PORT: '0' })).toMatchObject({ port: 0, mqttPort: 0 });
  });

  it('has no MQTT listener without TLS if it is off', () => {
    expect(read({ MQTT_PORT: 'off' }).mqttPort).toBeNull();
    expect(problem({ MQTT_PORT: 'none' }).message).toBe('MQTT_PORT must be a whole number from 0 to 65535 or off');
  });

  it.each([
    ['a certificate', { ...tls }],
    ['a public URL with TLS', { PUBLIC_URL: 'HTTPS://a.example' }],
    ['a public URL of MQTT with TLS', { MQTT_PUBLIC_URL: 'mqtts://a.example:8883' }],
    ['a public URL of MQTT over WebSocket with TLS', { MQTT_PUBLIC_URL: 'wss://a.example/mqtt' }],
  ])('requires TLS of MQTT users with %s, unless set otherwise', (_, env) => {
    expect(read(env).mqttUsersNeedTls).toBe(true);
    expect(read({ ...env, MQTT_USER_TLS: 'optional' }).mqttUsersNeedTls).toBe(false);
    expect(read({ MQTT_USER_TLS: 'required' }).mqttUsersNeedTls).toBe(true);
  });

  it('shares nothing with pages that come without TLS, except on loopback, where the service has TLS', () => {
    const origins = (CORS_ORIGINS: string, more: Environment = { PUBLIC_URL: 'https://a.example' }) =>
      read({ CORS_ORIGINS, ...more }).corsOrigins;
    expect(origins('https://app.example,http://localhost:5173')).toEqual([
      'https://app.example',
      'http://localhost:5173',
    ]);
    expect(origins('http://app.example', {})).toEqual(['http://app.example']);
    const refused = problem({
      CORS_ORIGINS: 'https://app.example,http://app.example',
      PUBLIC_URL: 'https://a.example',
    });
    expect([refused.variable, refused.message]).toEqual(['CORS_ORIGINS', expect.stringContaining('https://')]);
  });

  it.each([
    'http://localhost:4000',
    'http://127.0.0.1/x',
    'http://[::1]:4000',
    'http://id.localhost',
    'https://id.example',
  ])('accepts the identity provider %s', (issuer) => {
    expect(read({ OIDC_ISSUER: issuer, OIDC_AUDIENCE: 'a', OIDC_JWKS_URI: issuer }).oidc?.issuer).toBe(issuer);
  });

  it.each([
    'http://id.example',
    'http://10.0.0.7',
    'http://localhost.example',
    'HTTP://[2001:db8::1]',
    'http://127.example',
  ])('refuses the identity provider %s', (url) => {
    expect(problem({ OIDC_ISSUER: url, OIDC_AUDIENCE: 'a' }).variable).toBe('OIDC_ISSUER');
    const keysAlone = { OIDC_ISSUER: 'https://id.example', OIDC_AUDIENCE: 'a', OIDC_JWKS_URI: url };
    expect(problem(keysAlone).variable).toBe('OIDC_JWKS_URI');
  });

  it('stores artifacts in the database only where that is set and PostgreSQL is used', () => {
    const databaseUrl = { DATABASE_URL: 'postgres://db/x' };
    expect(read(databaseUrl).artifactStore).toBe('folder');
    expect(read({ ...databaseUrl, ARTIFACT_STORE: 'database' }).artifactStore).toBe('database');
    expect(problem({ ARTIFACT_STORE: 'database' }).message).toBe('ARTIFACT_STORE needs DATABASE_URL to be database');
  });

  it('keeps the default of each retention that is not set', () => {
    expect(read({ RETENTION_DAYS: 'commands=7' }).retentionDays).toEqual({ commands: 7, journal: 365 });
    expect(read({ RETENTION_DAYS: 'samples=2' }).historyRetention.base).toEqual({ samples: 2, rollups: 730 });
  });

  it('reads the retention of the history of a tier', () => {
    const { historyRetention } = read({ RETENTION_DAYS: 'samples.pro=30,rollups.pro=3650,samples.free=1' });
    expect(historyRetention).toEqual({
      base: { samples: 7, rollups: 730 },
      byTier: { free: { samples: 1 }, pro: { samples: 30, rollups: 3_650 } },
    });
  });

  it('replaces all tiers when tiers are set', () => {
    expect(read({ RATE_LIMITS: 'basic=10, gold=0', DEFAULT_TIER: 'gold' }).rateLimits).toEqual({ basic: 10, gold: 0 });
  });

  it('of quotas is merged with the defaults, and factors are by tier', () => {
    const { base, factors } = read({ QUOTAS: 'homes=5,devices=0', QUOTA_FACTORS: 'gold=0' }).quotas;
    expect(base).toEqual({ ...defaultQuotas.base, homes: 5, devices: 0 });
    expect(factors).toEqual({ gold: 0 });
  });

  it('removes the slash at the end of public URLs', () => {
    const config = read({
      HOST: '0.0.0.0',
      PUBLIC_URL: 'https://a.example/iot/',
      MQTT_PUBLIC_URL: 'mqtts://a.example:8883',
    });
    expect(config).toMatchObject({ publicUrl: 'https://a.example/iot', mqttPublicUrl: 'mqtts://a.example:8883' });
  });

  it('accepts a platform claim whose name is a URL', () => {
    const oidc = {
      OIDC_ISSUER: 'https://id.example/',
      OIDC_AUDIENCE: 'a',
      OIDC_PLATFORM_CLAIM: 'https://x.example/r:op',
    };
    expect(read(oidc).oidc).toMatchObject({
      issuer: 'https://id.example/',
      platformClaim: { name: 'https://x.example/r', value: 'op' },
    });
  });

  it('reads how scopes of the identity provider are written', () => {
    const oidc = { OIDC_ISSUER: 'https://id.example/', OIDC_AUDIENCE: 'a' };
    expect(read(oidc).oidc?.scopeClaim).toEqual({ required: false, prefix: '' });
    expect(read({ ...oidc, OIDC_SCOPE: 'required', OIDC_SCOPE_PREFIX: 'twinkeep:' }).oidc?.scopeClaim).toEqual({
      required: true,
      prefix: 'twinkeep:',
    });
  });

  it('accepts addresses, ranges and the known names as trusted proxies', () => {
    const trusted = 'loopback, 10.0.0.0/8,2001:db8::/32,192.0.2.7';
    expect(read({ TRUSTED_PROXIES: trusted }).trustedProxies).toEqual([
      'loopback',
      '10.0.0.0/8',
      '2001:db8::/32',
      '192.0.2.7',
    ]);
  });
});

describe('the public URLs', () => {
  it('are made from the host and the ports in use', () => {
    const url = 'https://localhost:8443';
    expect(httpUrl({ host: '127.0.0.1', tls: null }, 8080)).toBe('http://127.0.0.1:8080');
    expect(httpUrl({ host: '::1', tls: { cert: '', key: '' } }, 8443)).toBe('https://[::1]:8443');
    expect(mqttUrl({ host: 'localhost' }, { port: 1883, tlsPort: null }, url)).toBe('mqtt://localhost:1883');
    expect(mqttUrl({ host: 'localhost' }, { port: 1883, tlsPort: 8883 }, url)).toBe('mqtts://localhost:8883');
    expect(mqttUrl({ host: 'localhost' }, { port: null, tlsPort: null }, url)).toBe('wss://localhost:8443/mqtt');
  });
});

describe('an invalid setting', () => {
  const bad: [string, Environment, string?][] = [
    ['PORT', { PORT: '80a' }],
    ['PORT', { PORT: '65536' }],
    ['PORT', { PORT: '-1' }],
    ['HOST', { HOST: 'not a host' }],
    ['HOST', { HOST: '0' }],
    ['HOST', { HOST: '256.1.1.1' }],
    ['MQTT_PORT', { MQTT_PORT: '8080' }],
    ['HSTS_MAX_AGE', { HSTS_MAX_AGE: '1y' }],
    ['MQTT_USER_TLS', { MQTT_USER_TLS: 'off' }],
    ['METRICS_TOKEN', { METRICS_TOKEN: 'hunter2' }],
    ['METRICS_TOKEN', { METRICS_TOKEN: 'hunter2 hunter2 hunter2' }],
    ['PUBLIC_URL', { HOST: '0.0.0.0' }],
    ['PUBLIC_URL', { HOST: '::', MQTT_PUBLIC_URL: 'mqtt://a:1' }],
    ['PUBLIC_URL', { HOST: '[::]' }],
    ['PUBLIC_URL', { HOST: '::ffff:0.0.0.0' }],
    ['MQTT_PUBLIC_URL', { HOST: '0.0.0.0', PUBLIC_URL: 'http://a' }],
    ['PUBLIC_URL', { PUBLIC_URL: 'ftp://a' }],
    ['PUBLIC_URL', { PUBLIC_URL: 'a.example' }],
    ['PUBLIC_URL', { PUBLIC_URL: 'https://user:secret@a.example' }],
    ['PUBLIC_URL', { PUBLIC_URL: 'https://a.example/?q' }],
    ['MQTT_PUBLIC_URL', { MQTT_PUBLIC_URL: 'http://a' }],
    ['MQTT_TLS_PORT', { MQTT_TLS_PORT: '8883' }],
    ['TLS_KEY', { TLS_CERT: '/nowhere/cert.pem' }],
    ['TLS_CERT', { TLS_KEY: '/nowhere/key.pem' }],
    ['TLS_CERT', { TLS_CERT: '/nowhere/cert.pem', TLS_KEY: '/nowhere/key.pem' }],
    ['TRUSTED_PROXIES', { TRUSTED_PROXIES: '10.0.0.0/33' }],
    ['TRUSTED_PROXIES', { TRUSTED_PROXIES: 'everyone' }],
    ['DATABASE_URL', { DATABASE_URL: 'mysql://root:hunter2@db/x' }],
    ['DATABASE_URL', { DATABASE_URL: 'postgres' }],
    ['ARTIFACT_STORE', { ARTIFACT_STORE: 's3' }],
    ['ARTIFACT_STORE', { ARTIFACT_STORE: 'database' }],
    ['ROW_SECURITY', { ROW_SECURITY: 'yes' }],
    ['ROW_SECURITY', { ROW_SECURITY: 'required' }],
    ['REDIS_URL', { REDIS_URL: 'http://:hunter2@cache' }],
    ['MASTER_KEY', { MASTER_KEY: 'c2hvcnQ=' }],
    ['MASTER_KEY_PREVIOUS', { MASTER_KEY_PREVIOUS: 'hunter2' }],
    ['TOKEN_SIGNING_KEY', { TOKEN_SIGNING_KEY: '{}' }],
    ['TOKEN_SIGNING_KEY', { TOKEN_SIGNING_KEY: 'null' }],
    ['DEVICE_SIGNING_KEY', { DEVICE_SIGNING_KEY: 'hunter2' }],
    ['OIDC_AUDIENCE', { OIDC_ISSUER: 'https://id.example' }],
    ['OIDC_AUDIENCE', { OIDC_AUDIENCE: 'a' }],
    ['OIDC_CLIENT_SECRET', { OIDC_CLIENT_SECRET: 'hunter2' }],
    ['OIDC_PLATFORM_CLAIM', { OIDC_ISSUER: 'https://i.example', OIDC_AUDIENCE: 'a', OIDC_PLATFORM_CLAIM: 'groups' }],
    ['OIDC_SCOPE', { OIDC_ISSUER: 'https://i.example', OIDC_AUDIENCE: 'a', OIDC_SCOPE: 'ignored' }],
    ['OIDC_SCOPE', { OIDC_SCOPE: 'required' }],
    ['OIDC_SCOPE_PREFIX', { OIDC_ISSUER: 'https://i.example', OIDC_AUDIENCE: 'a', OIDC_SCOPE_PREFIX: 'a b' }],
    ['OIDC_SCOPE_PREFIX', { OIDC_SCOPE_PREFIX: 'twinkeep:' }],
    ['SIDECAR', { SIDECAR: 'on' }],
    ['SIDECAR_ADDRESS', { SIDECAR_ADDRESS: 'localhost' }],
    ['LLM_MODEL', { LLM_BASE_URL: 'http://127.0.0.1:9' }],
    ['RATE_LIMITS', { RATE_LIMITS: 'free' }],
    ['RATE_LIMITS', { RATE_LIMITS: 'free=1,free=2' }],
    ['DEFAULT_TIER', { DEFAULT_TIER: 'gold' }],
    ['DEFAULT_TIER', { DEFAULT_TIER: 'constructor' }],
    ['DEVICE_RATE', { DEVICE_RATE: '50' }],
    ['DEVICE_RATE', { DEVICE_RATE: '50/10' }],
    ['MQTT_MAX_CONNECTIONS', { MQTT_MAX_CONNECTIONS: '0' }],
    ['MAX_LIVE_ACTORS', { MAX_LIVE_ACTORS: '999' }],
    ['BETA_DEVICE_LIMIT', { BETA_DEVICE_LIMIT: 'none' }],
    ['RATE_LIMITS', { RATE_LIMITS: 'free.x=1' }],
    ['RETENTION_DAYS', { RETENTION_DAYS: 'logs=3' }],
    ['RETENTION_DAYS', { RETENTION_DAYS: 'samples.gold=3' }],
    ['RETENTION_DAYS', { RETENTION_DAYS: 'commands.pro=3' }],
    ['RETENTION_DAYS', { RETENTION_DAYS: 'commands=0' }],
    ['LOG_LEVEL', { LOG_LEVEL: 'loud' }],
    ['LOG_FORMAT', { LOG_FORMAT: 'xml' }],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }],
  ];
  it.each(bad)('is named: %s of %j', (variable, env) => {
    const error = problem(env);
    expect(error.variable).toBe(variable);
    expect(error.message).toMatch(new RegExp(`^${variable} `));
    expect(error.message).not.toContain('hunter2');
    expect(error.message).not.toContain('\n');
  });

  it.each(['MASTER_KEY', 'TOKEN_SIGNING_KEY', 'DEVICE_SIGNING_KEY'])(
    'is reported as a missing %s next to DATABASE_URL',
    (name) => {
      expect(problem({ DATABASE_URL: 'postgres://db/x', [name]: undefined }).variable).toBe(name);
    },
  );

  it('leaves no key file', () => {
    const dataDir = join(folder, 'refused');
    expect(() => readConfig({ DATA_DIR: dataDir, LOG_FORMAT: 'xml' }, false)).toThrow(ConfigError);
    expect(existsSync(dataDir)).toBe(false);
  });
});

/** Settings that others need. */
const complete: Environment = {
  ...tls,
  ...{ OIDC_ISSUER: 'https://id.example', OIDC_AUDIENCE: 'a', OIDC_CLIENT_ID: 'b' },
  ...{ LLM_BASE_URL: 'http://127.0.0.1:9', LLM_MODEL: 'c' },
};
/** Any text is valid, or any visible one. */
const freeTexts = new Set<SettingName>([
  ...(['DATA_DIR', 'OIDC_AUDIENCE', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET', 'OIDC_SCOPE_PREFIX'] as const),
  ...(['LLM_MODEL', 'LLM_API_KEY', 'NODE_ENV'] as const),
]);

describe.each(settingsTable.map(({ name }) => name).filter((name) => !freeTexts.has(name)))('a wrong %s', (name) => {
  it('is refused in a text of the service that does not repeat it', () => {
    const wrong = ['{"hunter2": ', "hunter2'; --", 'hunter2\u0007', 'https://[hunter2:', 'hunter2:'];
    for (const value of wrong) {
      const { variable, message } = problem({ ...complete, [name]: value });
      expect(variable).toBe(name);
      expect(message).toMatch(/^[A-Z_]+ (must|needs|is|accepts) /);
      expect(message).not.toContain('hunter2');
      expectNoLibraryText(message);
    }
  });
});

describe('a TLS pair', () => {
  const file = (name: string) => join('test/support/tls', name);

  it('is read as one', () => {
    const config = read({ TLS_CERT: file('localhost.crt'), TLS_KEY: file('localhost.key'), MQTT_TLS_PORT: '8883' });
    expect(config.tls?.cert).toBe(readFileSync(file('localhost.crt'), 'utf8'));
    expect(config.mqttTlsPort).toBe(8883);
  });

  it('with halves that do not belong together is refused by name', () => {
    expect(problem({ TLS_CERT: file('localhost.crt'), TLS_KEY: file('other.key') }).variable).toBe('TLS_KEY');
    expect(problem({ TLS_CERT: file('localhost.key'), TLS_KEY: file('localhost.key') }).variable).toBe('TLS_CERT');
  });
});

it('only the configuration reads the environment', () => {
  const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const readers = sources.filter((path) => readFileSync(join('src', path), 'utf8').includes('process.env'));
  expect(readers).toEqual(['config.ts']);
});

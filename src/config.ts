import { isIPv6 } from 'node:net';
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { type Keys, type MissingKey, readKeys, readTokenSigning, type SigningPair } from './config/keys.ts';
import { readListening } from './config/listening.ts';
import { type Oidc, readOidc } from './config/oidc.ts';
import {
  ConfigError,
  type Environment,
  makeSettingReader,
  type ReadSetting,
  readAddress,
  readChoice,
  readInteger,
  readNamedNumbers,
  readProxies,
  readPublicUrl,
  readServerUrl,
} from './config/setting-readers.ts';
import type { ClientSettingName } from './config/settings.ts';
import { defaultHistoryRetention, type HistoryRetention, historyKinds } from './domain/history/retention.ts';
import { defaultQuotas, type Quotas, quotaKinds } from './domain/quotas.ts';

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** The validated configuration of the service, deeply frozen. The system chooses a port for each port of 0. */
export interface Config {
  readonly host: string;
  readonly port: number;
  /** Null: MQTT without TLS is not served. */
  readonly mqttPort: number | null;
  readonly mqttTlsPort: number | null;
  /** A certificate and its private key, as PEM. */
  readonly tls: Readonly<{ cert: string; key: string }> | null;
  /** Without a trailing slash. Null: `httpUrl` of the bound port. */
  readonly publicUrl: string | null;
  /** Null: `mqttUrl` of the bound ports. */
  readonly mqttPublicUrl: string | null;
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may use REST and GraphQL. */
  readonly corsOrigins: readonly string[];
  /** `max-age` of `Strict-Transport-Security`. */
  readonly hstsMaxAgeS: number;
  /** Whether tenant users, whose MQTT password is a token or an API key, are refused without TLS. */
  readonly mqttUsersNeedTls: boolean;
  /** Absolute path. */
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  /** `folder` is in `dataDir`. */
  readonly artifactStore: 'folder' | 'database';
  /** Whether PostgreSQL limits statements for a tenant to its rows; `on` only if it is possible. */
  readonly rowSecurity: 'on' | 'off' | 'required';
  readonly redisUrl: string | null;
  /** Where other nodes reach this one; null for a process that has the database to itself. */
  readonly node: Readonly<{ host: string; port: number }> | null;
  /** Between SIGTERM and the refusal of new connections. */
  readonly stopDelayS: number;
  readonly keys: Readonly<Keys>;
  readonly oidc: Readonly<Oidc> | null;
  /** `address` is null for `embedded` on a free port, and for `off`. */
  readonly sidecar: Readonly<{ mode: 'embedded' | 'external' | 'off'; address: string | null }>;
  readonly llm: Readonly<{ baseUrl: string; model: string; apiKey: string | null }> | null;
  /** Requests per minute by tier; 0 is unlimited. */
  readonly rateLimits: Readonly<Record<string, number>>;
  readonly defaultTier: string;
  /** Requests per minute of one key or user, by tier; none for a tier without one. */
  readonly credentialRateLimits: Readonly<Record<string, number>>;
  /** Requests per minute with credentials from one client address; 0 is unlimited. */
  readonly addressRateLimit: number;
  /** What tenants may have. */
  readonly quotas: Quotas;
  readonly sessionMaxAgeS: number;
  readonly deviceRate: Readonly<{ perSecond: number; burst: number }>;
  readonly mqttMaxConnections: number;
  /** Maximum number of actors in memory. */
  readonly maxLiveActors: number;
  /** 0 is unlimited. */
  readonly betaDeviceLimit: number;
  readonly retentionDays: Readonly<{ commands: number; journal: number }>;
  /** Days for which the history of devices is retained. */
  readonly historyRetention: HistoryRetention;
  /** Bytes of reports that a device may store for its history a day; null: any number. */
  readonly historyBytes: number | null;
  readonly log: Readonly<{ level: LogLevel; format: 'json' | 'pretty' }>;
  readonly otlpEndpoint: string | null;
  /** The credential of `/metrics` and of the counts in `/health`; null: they are public. */
  readonly metricsToken: string | null;
  readonly production: boolean;
}

/**
 * Reads the configuration; throws a `ConfigError` that names the variable. Missing key files are created last. No other
 * part of the service reads the environment.
 */
export function readConfig(env: Environment = process.env, terminal: boolean = process.stdout.isTTY === true): Config {
  const read = makeSettingReader(env);
  const listening = readListening(read);
  const databaseUrl = readServerUrl(read, 'DATABASE_URL', ['postgres', 'postgresql']);
  const rateLimits = readNamedNumbers(read, 'RATE_LIMITS', { free: 60, pro: 300 }, { min: 0, max: 1_000_000 });
  const defaultTier = read('DEFAULT_TIER') ?? 'free';
  if (!Object.hasOwn(rateLimits, defaultTier)) throw new ConfigError('DEFAULT_TIER', 'must be a tier of RATE_LIMITS');
  const config = {
    ...listening,
    trustedProxies: readProxies(read, 'TRUSTED_PROXIES'),
    dataDir: dataDirectory(read),
    databaseUrl,
    artifactStore: readArtifactStore(read, databaseUrl),
    rowSecurity: readRowSecurity(read, databaseUrl),
    redisUrl: readServerUrl(read, 'REDIS_URL', ['redis', 'rediss']),
    node: readNode(read),
    stopDelayS: readInteger(read, 'STOP_DELAY', 0, 0, 300),
    oidc: readOidc(read),
    sidecar: readSidecar(read),
    llm: readLlm(read),
    rateLimits,
    defaultTier,
    credentialRateLimits: readNamedNumbers(read, 'CREDENTIAL_RATE_LIMITS', {}, { min: 1, max: 1_000_000 }),
    addressRateLimit: readInteger(read, 'ADDRESS_RATE_LIMIT', 0, 0, 1_000_000),
    quotas: readQuotas(read),
    sessionMaxAgeS: readInteger(read, 'SESSION_MAX_AGE', 43_200, 60, 31_536_000),
    deviceRate: readDeviceRate(read),
    mqttMaxConnections: readInteger(read, 'MQTT_MAX_CONNECTIONS', 20_000, 1, 10_000_000),
    maxLiveActors: readInteger(read, 'MAX_LIVE_ACTORS', 150_000, 1_000, 100_000_000),
    betaDeviceLimit: readInteger(read, 'BETA_DEVICE_LIMIT', 0, 0, 1_000_000_000),
    ...readRetention(read, Object.keys(rateLimits)),
    historyBytes: readInteger(read, 'HISTORY_DAY_MIB', 64, 0, 1_000_000) * 1024 ** 2 || null,
    log: {
      level: readChoice(read, 'LOG_LEVEL', logLevels, 'info'),
      format: readChoice(read, 'LOG_FORMAT', ['json', 'pretty'], terminal ? 'pretty' : 'json'),
    },
    otlpEndpoint: readPublicUrl(read, 'OTEL_EXPORTER_OTLP_ENDPOINT', ['http', 'https']),
    metricsToken: readMetricsToken(read),
    production: read('NODE_ENV') === 'production',
  };
  return deepFreeze({ ...config, keys: readKeys(read, config.dataDir) });
}

/**
 * The configuration of `twinkeep token`: the token signing key, without database and ports. Throws `ConfigError`, also
 * for a key file that does not exist if `missingKey` does not create it.
 */
export function readTokenKey(env: Environment = process.env, missingKey?: MissingKey): SigningPair {
  const read = makeSettingReader(env);
  return readTokenSigning(read, dataDirectory(read), missingKey);
}

export interface ClientConfig {
  url: string;
  token: string | null;
  /** File in which `twinkeep login` stores its tokens; an absolute path. */
  credentialsFile: string;
}

/** Whether the character encoding of the locale is UTF-8 (POSIX, section 8.2); Windows has it without a locale. */
export const hasUtf8Locale = ({ LC_ALL, LC_CTYPE, LANG }: Environment = process.env): boolean =>
  process.platform === 'win32' || /utf-?8/i.test(LC_ALL || LC_CTYPE || LANG || '');

/** The configuration of client commands; command-line options take precedence. */
export function readClientConfig(env: Environment = process.env): ClientConfig {
  const read = makeSettingReader<ClientSettingName | 'XDG_CONFIG_HOME'>(env);
  const settings = read('XDG_CONFIG_HOME');
  // Relative paths must be ignored (XDG Base Directory Specification).
  const folder = settings !== null && isAbsolute(settings) ? settings : join(homedir(), '.config');
  return {
    url: read('TWINKEEP_URL') ?? 'http://127.0.0.1:8080',
    token: read('TWINKEEP_TOKEN'),
    credentialsFile: resolve(read('TWINKEEP_CREDENTIALS') ?? join(folder, 'twinkeep', 'credentials.json')),
  };
}

/** The HTTP URL of the listening address, used if `PUBLIC_URL` is unset. */
export const httpUrl = (config: Pick<Config, 'host' | 'tls'>, bound: number): string =>
  `${config.tls === null ? 'http' : 'https'}://${inUrl(config.host)}:${bound}`;

/** The same for MQTT: the TLS listener if there is one, and without listeners MQTT over WebSocket below `url`. */
export function mqttUrl(
  config: Pick<Config, 'host'>,
  bound: { port: number | null; tlsPort: number | null },
  url: string,
): string {
  if (bound.tlsPort !== null) return `mqtts://${inUrl(config.host)}:${bound.tlsPort}`;
  return bound.port === null ? `${url.replace(/^http/, 'ws')}/mqtt` : `mqtt://${inUrl(config.host)}:${bound.port}`;
}

/** Converts a listen error to a `ConfigError` that names the setting; returns any other error unchanged. */
export function listenFault(config: Pick<Config, 'mqttPort' | 'mqttTlsPort'>, error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { code, syscall, port: requestedPort } = error as NodeJS.ErrnoException & { port?: number };
  if (syscall === 'getaddrinfo' || code === 'EADDRNOTAVAIL')
    return new ConfigError('HOST', `is not an address of this machine (${code})`);
  if (syscall !== 'listen') return error;
  const name =
    requestedPort === config.mqttPort ? 'MQTT_PORT' : requestedPort === config.mqttTlsPort ? 'MQTT_TLS_PORT' : 'PORT';
  const reason = code === 'EADDRINUSE' ? `is in use. Set ${name} to another port.` : `is refused (${code})`;
  return new ConfigError(name, `cannot be opened: ${requestedPort} ${reason}`);
}

const inUrl = (name: string): string => (isIPv6(name) ? `[${name}]` : name);

const dataDirectory = (read: ReadSetting): string => resolve(read('DATA_DIR') ?? './data');

function readNode(read: ReadSetting): Config['node'] {
  const address = readAddress(read, 'NODE_ADDRESS');
  if (address === null) return null;
  if (read('DATABASE_URL') === null) throw new ConfigError('NODE_ADDRESS', 'needs DATABASE_URL');
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(address.slice(colon + 1)) };
}

function readArtifactStore(read: ReadSetting, databaseUrl: string | null): Config['artifactStore'] {
  const artifactStore = readChoice(read, 'ARTIFACT_STORE', ['folder', 'database'], 'folder');
  if (artifactStore === 'database' && databaseUrl === null) {
    throw new ConfigError('ARTIFACT_STORE', 'needs DATABASE_URL to be database');
  }
  return artifactStore;
}

function readRowSecurity(read: ReadSetting, databaseUrl: string | null): Config['rowSecurity'] {
  const rowSecurity = readChoice(read, 'ROW_SECURITY', ['on', 'off', 'required'], 'on');
  if (rowSecurity === 'required' && databaseUrl === null) {
    throw new ConfigError('ROW_SECURITY', 'needs DATABASE_URL to be required');
  }
  return rowSecurity;
}

function readSidecar(read: ReadSetting): Config['sidecar'] {
  const mode = readChoice(read, 'SIDECAR', ['embedded', 'external', 'off'], 'embedded');
  const configured = readAddress(read, 'SIDECAR_ADDRESS');
  if (mode === 'off') return { mode, address: null };
  return { mode, address: configured ?? (mode === 'external' ? '127.0.0.1:50051' : null) };
}

function readLlm(read: ReadSetting): Config['llm'] {
  const baseUrl = readPublicUrl(read, 'LLM_BASE_URL', ['https', 'http']);
  const model = read('LLM_MODEL');
  const apiKey = read('LLM_API_KEY');
  if (baseUrl === null) {
    if (model !== null) throw new ConfigError('LLM_MODEL', 'needs LLM_BASE_URL');
    if (apiKey !== null) throw new ConfigError('LLM_API_KEY', 'needs LLM_BASE_URL');
    return null;
  }
  if (model === null) throw new ConfigError('LLM_MODEL', 'is required with LLM_BASE_URL');
  return { baseUrl, model, apiKey };
}

/** The characters of a bearer token (RFC 6750 §2.1). */
function readMetricsToken(read: ReadSetting): string | null {
  const token = read('METRICS_TOKEN');
  if (token !== null && !/^[A-Za-z0-9._~+/-]{16,255}=*$/.test(token)) {
    throw new ConfigError('METRICS_TOKEN', 'must be 16 to 255 characters: letters, digits and . _ ~ + / -');
  }
  return token;
}

function readQuotas(read: ReadSetting): Quotas {
  const { base, factors } = defaultQuotas;
  const kinds = Object.keys(quotaKinds);
  return {
    base: { ...base, ...readNamedNumbers(read, 'QUOTAS', base, { names: kinds, min: 0, max: 100_000_000 }) },
    factors: readNamedNumbers(read, 'QUOTA_FACTORS', factors, { min: 0, max: 1_000_000 }),
  };
}

/** Samples and roll-ups of a tier, such as `samples.pro`, are retained as long as those of all tiers without one. */
function readRetention(
  read: ReadSetting,
  tiers: readonly string[],
): Pick<Config, 'retentionDays' | 'historyRetention'> {
  const { base } = defaultHistoryRetention;
  const fallback = { commands: 90, journal: 365, ...base };
  const ofTiers = tiers.flatMap((tier) => historyKinds.map((kind) => ({ tier, kind, name: `${kind}.${tier}` })));
  const names = [...Object.keys(fallback), ...ofTiers.map(({ name }) => name)];
  const days: Record<string, number> = readNamedNumbers(read, 'RETENTION_DAYS', fallback, {
    ...{ names, min: 1, max: 36_500 },
  });
  const { commands, journal, samples, rollups } = { ...fallback, ...days };
  const byTier: Record<string, Partial<HistoryRetention['base']>> = {};
  for (const { tier, kind, name } of ofTiers)
    if (days[name] !== undefined) byTier[tier] = { ...byTier[tier], [kind]: days[name] };
  return { retentionDays: { commands, journal }, historyRetention: { base: { samples, rollups }, byTier } };
}

function readDeviceRate(read: ReadSetting): { perSecond: number; burst: number } {
  const text = read('DEVICE_RATE') ?? '50/500';
  const match = /^(\d{1,7})\/(\d{1,7})$/.exec(text);
  const perSecond = Number(match?.[1]);
  const burst = Number(match?.[2]);
  if (!(perSecond >= 1 && burst >= perSecond)) {
    throw new ConfigError(
      'DEVICE_RATE',
      'must be rate/burst in messages; the rate must be at least 1, and the burst at least the rate',
    );
  }
  return { perSecond, burst };
}

/** Freezes plain objects and arrays only: a `KeyObject` is immutable already. */
function deepFreeze<T extends object>(value: T): Readonly<T> {
  for (const member of Object.values(value)) {
    const plain = Array.isArray(member) || (member !== null && Object.getPrototypeOf(member) === Object.prototype);
    if (plain) deepFreeze(member);
  }
  return Object.freeze(value);
}

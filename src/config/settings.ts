/** One environment variable, as `--help` and the README show it. */
export interface Setting {
  name: string;
  /** What holds when it is unset, in words or as a value. */
  fallback: string;
  meaning: string;
}

const setting = <const Name extends string>(name: Name, fallback: string, meaning: string) => ({
  name,
  fallback,
  meaning,
});

/** Every variable the service reads (contract §1), in the order they are shown. */
export const settingsTable = [
  setting('HOST', '127.0.0.1', 'address that HTTP and MQTT listen on'),
  setting('PORT', '8080', 'HTTP: REST, WebSocket, MQTT over WebSocket at /mqtt, docs; 0 takes a free one'),
  setting('MQTT_PORT', '1883', 'the MQTT 3.1.1 broker; 0 takes a free one'),
  setting('MQTT_TLS_PORT', 'unset', 'a TLS listener for MQTT; needs TLS_CERT and TLS_KEY'),
  setting('TLS_CERT', 'unset', 'PEM file with the certificate chain; with it HTTP becomes HTTPS'),
  setting('TLS_KEY', 'unset', 'PEM file with the private key of TLS_CERT'),
  setting('PUBLIC_URL', 'from HOST and PORT', 'how clients reach HTTP; required when HOST is a wildcard'),
  setting(
    'MQTT_PUBLIC_URL',
    'from HOST and the MQTT ports',
    'how devices reach MQTT; required when HOST is a wildcard',
  ),
  setting('TRUSTED_PROXIES', 'unset', 'addresses and CIDR ranges whose X-Forwarded-* counts, separated by commas'),
  setting('DATA_DIR', './data', 'the embedded store, key files and firmware artifacts'),
  setting(
    'DATABASE_URL',
    'unset',
    'postgres://… for PostgreSQL 14 or later; its parameters do not replace application_name, timeouts or session options of the service; unset: the embedded store in DATA_DIR',
  ),
  setting('REDIS_URL', 'unset', 'redis://… for Redis 6.2 or later, or Valkey; unset: a cache in the process'),
  setting('MASTER_KEY', 'file in DATA_DIR', '32 bytes in base64 that seal secrets at rest; required with DATABASE_URL'),
  setting('MASTER_KEY_PREVIOUS', 'unset', 'the master key before this one, which still opens'),
  setting(
    'TOKEN_SIGNING_KEY',
    'file in DATA_DIR',
    'private Ed25519 JWK that signs internal tokens; required with DATABASE_URL',
  ),
  setting(
    'DEVICE_SIGNING_KEY',
    'file in DATA_DIR',
    'private Ed25519 JWK that signs what Ed25519 devices receive; required with DATABASE_URL',
  ),
  setting('OIDC_ISSUER', 'unset', 'issuer of the external identity provider'),
  setting('OIDC_AUDIENCE', 'unset', 'audience its tokens must carry; required with OIDC_ISSUER'),
  setting('OIDC_JWKS_URI', "from the issuer's discovery", 'where its public keys are'),
  setting('OIDC_CLIENT_ID', 'unset', 'client of the browser sign-in'),
  setting('OIDC_CLIENT_SECRET', 'unset', 'its secret; needs OIDC_CLIENT_ID'),
  setting('OIDC_PLATFORM_CLAIM', 'unset', 'name:value of the claim that makes a platform operator'),
  setting(
    'SESSION_MAX_AGE',
    '43200',
    'seconds after a sign-in in which it can approve command-line sign-ins; their tokens end then at the latest',
  ),
  setting('SIDECAR', 'embedded', 'embedded, external or off'),
  setting('SIDECAR_ADDRESS', '127.0.0.1:50051 when external, else a free port', 'host:port of the cognitive sidecar'),
  setting('LLM_BASE_URL', 'unset', "the reference sidecar's language model; needs LLM_MODEL"),
  setting('LLM_MODEL', 'unset', 'model to ask for'),
  setting('LLM_API_KEY', 'unset', 'key for it'),
  setting('RATE_LIMITS', 'free=60,pro=300', 'requests a minute and tenant by tier; name=0 is unlimited'),
  setting('DEFAULT_TIER', 'free', 'tier of a new tenant'),
  setting('DEVICE_RATE', '50/500', 'messages a second and burst of one device; beyond it its socket is not read'),
  setting('MQTT_MAX_CONNECTIONS', '20000', 'MQTT connections at a time'),
  setting('BETA_DEVICE_LIMIT', '0', 'active devices in the whole service; 0 is no limit'),
  setting('RETENTION_DAYS', 'commands=90,journal=365', 'days that finished commands and the journal are kept'),
  setting('LOG_LEVEL', 'info', 'fatal, error, warn, info, debug, trace or silent'),
  setting('LOG_FORMAT', 'json (pretty on a terminal)', 'json or pretty'),
  setting('OTEL_EXPORTER_OTLP_ENDPOINT', 'unset', 'where traces are sent'),
  setting('NODE_ENV', 'unset', 'production: the GraphQL schema and its explorer are for administrators alone'),
] as const satisfies readonly Setting[];

export type SettingName = (typeof settingsTable)[number]['name'];

/** What the verbs of the command line read when the option is not given. */
export const clientSettingsTable = [
  setting('TWINKEEP_URL', 'http://127.0.0.1:8080', 'the service that the verbs call (--url)'),
  setting('TWINKEEP_TOKEN', 'unset', 'the token they call it with (--token); unset: the one that login keeps'),
  setting(
    'TWINKEEP_CREDENTIALS',
    '~/.config/twinkeep/credentials.json',
    'where login keeps its tokens, by service; $XDG_CONFIG_HOME counts',
  ),
] as const satisfies readonly Setting[];

export type ClientSettingName = (typeof clientSettingsTable)[number]['name'];

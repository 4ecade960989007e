/** An environment variable, as shown by `--help` and docs/configuration.md. */
export interface Setting {
  name: string;
  /** Default, as a value or a description. */
  fallback: string;
  meaning: string;
}

const setting = <const Name extends string>(name: Name, fallback: string, meaning: string) => ({
  name,
  fallback,
  meaning,
});

/** All variables that the service reads (contract §1), in display order. */
export const settingsTable = [
  setting('HOST', '127.0.0.1', 'address on which HTTP and MQTT listen'),
  setting('PORT', '8080', 'HTTP: REST, WebSocket, MQTT over WebSocket at /mqtt, docs; 0 picks a free port'),
  setting('MQTT_PORT', '1883', 'the MQTT 3.1.1 broker without TLS; 0 picks a free port, off closes it'),
  setting('MQTT_TLS_PORT', 'unset', 'a TLS listener for MQTT; needs TLS_CERT and TLS_KEY'),
  setting('TLS_CERT', 'unset', 'PEM file with the certificate chain; with it HTTP becomes HTTPS'),
  setting('TLS_KEY', 'unset', 'PEM file with the private key of TLS_CERT'),
  setting('PUBLIC_URL', 'from HOST and PORT', 'URL by which clients reach HTTP; required if HOST is a wildcard'),
  setting(
    'MQTT_PUBLIC_URL',
    'from HOST and the MQTT ports',
    'URL by which devices reach MQTT; required if HOST is a wildcard',
  ),
  setting(
    'TRUSTED_PROXIES',
    'unset',
    'proxies whose X-Forwarded-* headers, and PROXY protocol headers on the MQTT ports, are trusted: addresses and CIDR ranges, separated by commas',
  ),
  setting(
    'HSTS_MAX_AGE',
    '31536000',
    'seconds for which browsers that have used HTTPS use nothing else (Strict-Transport-Security); 0 ends that',
  ),
  setting(
    'CORS_ORIGINS',
    'unset',
    'origins whose pages may use REST and GraphQL with a token or key, never with cookies: https://app.example.com, separated by commas',
  ),
  setting(
    'MQTT_USER_TLS',
    'required if TLS_CERT or a public URL has TLS',
    'required or optional: whether MQTT users, whose password is a token or an API key, are refused without TLS',
  ),
  setting('DATA_DIR', './data', 'the embedded store, key files and firmware artifacts'),
  setting(
    'DATABASE_URL',
    'unset',
    'postgres://… for PostgreSQL 14 or later; its parameters do not replace application_name, timeouts or session options of the service; unset: the embedded store in DATA_DIR',
  ),
  setting(
    'ARTIFACT_STORE',
    'folder',
    'where uploaded firmware artifacts are stored: folder (in DATA_DIR) or database; database needs DATABASE_URL',
  ),
  setting(
    'ROW_SECURITY',
    'on',
    'whether PostgreSQL limits statements for a tenant to its rows: on (with a warning if it is not possible), required or off',
  ),
  setting(
    'NODE_ADDRESS',
    'unset',
    'host:port where the other nodes of the database reach this one, to run several at once; needs DATABASE_URL',
  ),
  setting(
    'STOP_DELAY',
    '0',
    'seconds after SIGTERM during which /health/ready is 503 and everything is still accepted, for load balancers',
  ),
  setting(
    'REDIS_URL',
    'unset',
    'redis://… for Redis 6.2 or later, or Valkey; unset: sessions are in the database, rate limits in the process',
  ),
  setting(
    'MASTER_KEY',
    'file in DATA_DIR',
    '32 bytes in base64 that encrypt secrets at rest; required with DATABASE_URL',
  ),
  setting('MASTER_KEY_NEXT', 'unset', 'the next master key; decrypts, and is not used to encrypt yet'),
  setting('MASTER_KEY_PREVIOUS', 'unset', 'the previous master key; still decrypts'),
  setting(
    'MASTER_KEYS_LOST',
    'unset',
    'ids of master keys that no longer exist, separated by commas: the service starts although rows name them',
  ),
  setting(
    'TOKEN_SIGNING_KEY',
    'file in DATA_DIR',
    'private Ed25519 JWK that signs internal tokens; required with DATABASE_URL',
  ),
  setting(
    'TOKEN_SIGNING_KEY_NEXT',
    'unset',
    'Ed25519 JWK, private or public, of the next token signing key: in the JWKS, and its tokens are accepted',
  ),
  setting(
    'TOKEN_SIGNING_KEY_PREVIOUS',
    'unset',
    'Ed25519 JWK, private or public, of the previous token signing key: in the JWKS, and its tokens are valid until they expire',
  ),
  setting(
    'DEVICE_SIGNING_KEY',
    'file in DATA_DIR',
    'private Ed25519 JWK that signs messages to Ed25519 devices; required with DATABASE_URL',
  ),
  setting(
    'DEVICE_SIGNING_KEY_NEXT',
    'unset',
    'Ed25519 JWK, private or public, of the next device signing key: announced to devices, and not used yet',
  ),
  setting(
    'DEVICE_SIGNING_KEY_PREVIOUS',
    'unset',
    'Ed25519 JWK of the previous device signing key: announced; a private one also signs until a device has got the current one',
  ),
  setting('OIDC_ISSUER', 'unset', 'issuer of the external identity provider; https://, except on a loopback address'),
  setting('OIDC_AUDIENCE', 'unset', 'required audience of its tokens; required with OIDC_ISSUER'),
  setting('OIDC_JWKS_URI', "from the issuer's discovery", 'URL of its public keys'),
  setting('OIDC_CLIENT_ID', 'unset', 'client ID for the browser sign-in'),
  setting('OIDC_CLIENT_SECRET', 'unset', 'secret of that client; needs OIDC_CLIENT_ID'),
  setting(
    'OIDC_SCOPE',
    'optional',
    'required: an access token of the provider without a scope claim grants nothing; optional: it grants all that the role allows',
  ),
  setting('OIDC_SCOPE_PREFIX', 'unset', 'text before each scope of the service in the scope claim, such as twinkeep:'),
  setting('OIDC_PLATFORM_CLAIM', 'unset', 'name:value of the claim that identifies platform operators'),
  setting(
    'SESSION_MAX_AGE',
    '43200',
    'seconds after a sign-in during which it can approve command-line sign-ins and open browser sessions, which end then at the latest',
  ),
  setting('SIDECAR', 'embedded', 'embedded, external or off'),
  setting(
    'SIDECAR_ADDRESS',
    '127.0.0.1:50051; embedded takes a free port if that is taken',
    'host:port of the cognitive sidecar',
  ),
  setting('LLM_BASE_URL', 'unset', "base URL of the reference sidecar's language model; needs LLM_MODEL"),
  setting('LLM_MODEL', 'unset', 'name of the language model'),
  setting('LLM_API_KEY', 'unset', 'API key of the language model'),
  setting('RATE_LIMITS', 'free=60,pro=300', 'requests per minute and tenant, by tier; name=0 is unlimited'),
  setting('DEFAULT_TIER', 'free', 'tier of a new tenant'),
  setting(
    'CREDENTIAL_RATE_LIMITS',
    'unset',
    'requests per minute of one API key, or of one user with tokens, by tier, within those of the tenant',
  ),
  setting(
    'ADDRESS_RATE_LIMIT',
    '0',
    'requests per minute with credentials from one client address, whatever their tenants; 0 is unlimited',
  ),
  setting(
    'QUOTAS',
    'devices=10000,homes=1000,home_rooms=100,groups=1000,group_devices=1000,dashboards=100,cas=10,firmware_releases=1000,artifact_mib=1024',
    'what a tenant has at most, `home_rooms` in each home and `group_devices` in each group; 0 is unlimited',
  ),
  setting(
    'QUOTA_FACTORS',
    'pro=10',
    'by tier: by what its QUOTAS are multiplied, 1 if it is not named; 0 is unlimited',
  ),
  setting(
    'DEVICE_RATE',
    '50/500',
    'messages per second and burst of one device; above it reading from its socket pauses',
  ),
  setting(
    'MQTT_MAX_CONNECTIONS',
    '20000',
    'maximum number of MQTT connections that have signed in; a quarter as many may wait for their sign-in',
  ),
  setting(
    'MAX_LIVE_ACTORS',
    '150000',
    'maximum number of devices, commands, plans and tenants in memory; above it the least recently used leave',
  ),
  setting('BETA_DEVICE_LIMIT', '0', 'maximum number of active devices in the service; 0 is unlimited'),
  setting(
    'RETENTION_DAYS',
    'commands=90,journal=365,samples=7,rollups=730',
    'days for which finished commands, the journal, and samples and roll-ups of the history of devices are retained; samples.pro=30 for a tier of RATE_LIMITS',
  ),
  setting(
    'HISTORY_DAY_MIB',
    '64',
    'MiB of reports that one device may store for its history a day; it leaves no samples for the rest of the day then; 0 is unlimited',
  ),
  setting('LOG_LEVEL', 'info', 'fatal, error, warn, info, debug, trace or silent'),
  setting('LOG_FORMAT', 'json (pretty on a terminal)', 'json or pretty'),
  setting('OTEL_EXPORTER_OTLP_ENDPOINT', 'unset', 'URL to which traces are sent'),
  setting(
    'METRICS_TOKEN',
    'unset',
    'bearer token that /metrics and the counts in /health require; unset: they are public',
  ),
  setting('NODE_ENV', 'unset', 'production: only administrators can read the GraphQL schema and open its explorer'),
] as const satisfies readonly Setting[];

export type SettingName = (typeof settingsTable)[number]['name'];

/** Variables that replace missing options of client commands. */
export const clientSettingsTable = [
  setting('TWINKEEP_URL', 'http://127.0.0.1:8080', 'URL of the service for client commands (--url)'),
  setting('TWINKEEP_TOKEN', 'unset', 'token for client commands (--token); unset: the token stored by login'),
  setting(
    'TWINKEEP_CREDENTIALS',
    '~/.config/twinkeep/credentials.json',
    'file in which login stores its tokens, by service; $XDG_CONFIG_HOME applies',
  ),
] as const satisfies readonly Setting[];

export type ClientSettingName = (typeof clientSettingsTable)[number]['name'];

import type { ZodType, z } from 'zod';
import type { Actors, DeviceSessions } from '../actors/contract.ts';
import type { ChangeRequest } from '../domain/change-request.ts';
import type { ChangelogEntry } from '../domain/changelog.ts';
import type { Clock } from '../domain/clock.ts';
import type { HistoryRetention } from '../domain/history/retention.ts';
import type { KeyRestriction } from '../domain/key-restriction.ts';
import type { Log } from '../domain/log.ts';
import type { Quotas } from '../domain/quotas.ts';
import type { Outcome, RefusalCode } from '../domain/refusals.ts';
import type { Role } from '../domain/roles.ts';
import type { NeededScope, Scope } from '../domain/scopes.ts';
import type { Sealer } from '../domain/sealing.ts';
import type { EpochMs, Json, JsonObject, Principal, Uuid } from '../domain/values.ts';
import type { AgentTokens } from '../services/agent-tokens.ts';
import type { ApiKeyCache } from '../services/api-key-cache.ts';
import type { Artifacts } from '../services/artifacts.ts';
import type { AuditChain } from '../services/audit-chain.ts';
import type { AuditWriter } from '../services/audit-writer.ts';
import type { ConcurrencyLimiter } from '../services/concurrency-limiter.ts';
import type { CookieSessions } from '../services/cookie-sessions.ts';
import type { CsrfTokens } from '../services/csrf-tokens.ts';
import type { DeviceActivityLog } from '../services/device-activity-log.ts';
import type { Flag } from '../services/flags.ts';
import type { Handshakes } from '../services/handshakes.ts';
import type { Health } from '../services/health.ts';
import type { InvalidationBus } from '../services/invalidation-bus.ts';
import type { KeyedLocks } from '../services/keyed-locks.ts';
import type { ManifestCache } from '../services/manifest-cache.ts';
import type { LogoutTokenVerifier } from '../services/provider-logout.ts';
import type { SealedCache } from '../services/sealed-cache.ts';
import type { Sidecar } from '../services/sidecar.ts';
import type { NewToken, Revocations, TokenRef } from '../services/tokens.ts';
import type { UserCache } from '../services/user-cache.ts';
import type { UserSessions } from '../services/user-sessions.ts';
import type { StoredArtifact } from '../store/contract/artifact-files.ts';
import type { NodeAdministration } from '../store/contract/cluster.ts';
import type { RateLimiter } from '../store/contract/rate-limiter.ts';
import type { Cache, IdempotencyRow, Store, User } from '../store/contract.ts';

/** The authenticated caller, as an edge identified it; authorization happens in `perform` and the operations. */
export interface Caller {
  /** Null only for operations without authentication. */
  user: User | null;
  principal: Principal;
  tenantId: Uuid | null;
  role: Role;
  /** Null: everything the role allows. Empty: nothing. */
  scopes: readonly Scope[] | null;
  /** Of a restricted API key; absent for every other credential. Whatever is derived from a credential carries it. */
  restriction?: KeyRestriction;
  /** The devices of the groups that the restriction names, as `perform` read them for this request. */
  groupDevices?: ReadonlySet<Uuid>;
  platformAdmin: boolean;
  /** The request presented `METRICS_TOKEN`. */
  readsMetrics?: true;
  /** Authenticated by a browser's cookie session. */
  cookie?: true;
  /** The presented token, for logout and for connections that must end with it. */
  token: TokenRef | null;
  /** When the credential expires; null for a key without expiry. */
  endsAt: EpochMs | null;
  requestId: Uuid;
  /** The client's address; null or absent if it is not known. */
  address?: string | null;
  /** The client as it calls itself, as sent: a `User-Agent`, or an MQTT client id. */
  client?: string | null;
  /** The request's cookies, whatever the credential; only on edges that browsers use. */
  cookies?: BrowserCookies;
}

/** The service's cookies as sent, unverified. */
export interface BrowserCookies {
  session: string | null;
  csrf: string | null;
}

/** A cookie that an answer sets; a null value clears it. */
export interface CookieChange {
  name: keyof BrowserCookies;
  value: string | null;
  /** Null: until the browser is closed. */
  until: EpochMs | null;
}

/** An operation's answer: body and metadata. */
export interface Answer<Output> {
  body: Output;
  /** Set if it differs from the operation's default status, such as 200 or 409 for a dry run. */
  status?: number;
  /** Subject of the audit row, where it is known only after the operation ran. */
  about?: AuditSubject;
  /** For a list that is a bare array: the cursor of the next page, null on the last one. */
  next?: string | null;
  /** For a list that is a bare array: the number of the entries of all pages, null if it is not known. */
  total?: number | null;
  /** For a list: the cursor after each entry of this page, on protocols with one per entry. */
  cursors?(): string[];
  /** A strong entity tag of the body, with its quotes; on HTTP. */
  etag?: string;
  /** Instead of a body, for an operation with `download`. */
  file?: StoredFile;
  /** Instead of a body, for an operation with `streams`. */
  stream?: StreamedBody;
  /** On protocols with cookies. */
  cookies?: readonly CookieChange[];
}

/** A file to download; served with range support. */
export interface StoredFile {
  content: StoredArtifact;
  /** File name for a download; contains no quotes and no separators. */
  name: string;
  /** A strong entity tag: the same tag means the same bytes. */
  etag: string;
}

/** An answer of unknown length, which is made while it is sent. */
export interface StreamedBody {
  /** The media type, with parameters. */
  type: string;
  /** File name for a download; contains no quotes and no separators. */
  name: string;
  /**
   * Begins the body, when it is sent: the caller reads it to its end or returns it. It ends early when the signal aborts. An
   * empty chunk means that there was nothing to send for a while. Refused if too many run.
   */
  open(signal: AbortSignal): Outcome<AsyncIterable<string>>;
}

/** A streamed body other than JSON. */
export interface Upload {
  /** The media type. */
  type: string;
  maxBytes: number;
}

/**
 * The stored answer of an idempotent request (contract §2). An operation passes `toRow(…)` to the store together with
 * its effect; for an operation that writes nothing, or has several targets, `perform` stores the answer afterwards.
 */
export interface IdempotencyRecord {
  /** Seals the answer for the store. `subject`: owner of a secret in the answer, so that the row can be dropped. */
  toRow(answer: Answer<unknown>, subject?: string): IdempotencyRow;
  /** For several targets: stores the ids of the effects before they happen. */
  reserve(plan: Json): Promise<void>;
  /** The plan reserved by an earlier, interrupted attempt, or null. */
  reserved: Json;
  /** Of the audit row of the request, which a repeated request writes if the first one ended before. */
  readonly auditId: Uuid;
  /** True once `toRow` was called: the answer is stored with the effect. Otherwise `perform` stores it afterwards. */
  rowCreated: boolean;
}

export interface Call<Input> {
  input: Input;
  caller: Caller;
  /** Null without an `Idempotency-Key`. */
  idempotent: IdempotencyRecord | null;
  /** The uploaded body, for an operation with `upload`; iteration throws `UploadBroken` if it was interrupted. */
  upload?: AsyncIterable<Uint8Array> | null;
  /** Set if the operation applies a confirmed change request (changes/confirmed-change.ts). */
  approval?: ChangeApproval;
  /** Absent where requests are not counted. */
  charge?: ChargeCost;
}

/**
 * Charges what the operation costs in requests, before it does the work. The edge has charged one for the request already, and
 * takes only the rest. Refused, and nothing is taken, if that exceeds what is left of a limit.
 */
export type ChargeCost = (cost: number) => Promise<Outcome<null>>;

/** A confirmed change request that an operation applies, with the state and the preview that were confirmed. */
export type ChangeApproval = Pick<ChangeRequest, 'id' | 'digest' | 'requestedBy' | 'base' | 'preview'>;

/** Origin of a sign-in attempt; failures are counted by address. */
export interface SignInAttempt {
  via: string;
  requestId: Uuid;
  address: string | null;
  client?: string | null | undefined;
}

/**
 * Subject of an audit row; `tenantId` if it is not the caller's, `by` if the caller is only identified by the
 * operation.
 */
export type AuditSubject = string | { subject: string; tenantId?: Uuid | null; by?: Uuid };

/** All services, built once by `main`. An operation receives those that it declares in `needs`. */
export interface Services {
  store: Store;
  cache: Cache;
  rates: RateLimiter;
  actors: Actors;
  sessions: DeviceSessions;
  deviceActivity: DeviceActivityLog;
  manifests: ManifestCache;
  artifacts: Artifacts;
  locks: KeyedLocks;
  audit: AuditWriter;
  auditChain: AuditChain;
  auditExports: ConcurrencyLimiter;
  historyExports: ConcurrencyLimiter;
  historyQueries: ConcurrencyLimiter;
  clock: Clock;
  /** UUID version 7. */
  newId(): Uuid;
  /** The id of a new tenant, which this process can create. */
  newTenantId(): Uuid;
  seal: Sealer['seal'];
  open: Sealer['open'];
  masterKeys: Pick<Sealer, 'isCurrent' | 'keyIds'>;
  flags(): Readonly<Record<Flag, boolean>>;
  /** Resolves when durable, together with the stored answer of an idempotent request. */
  setFlag(flag: Flag, state: boolean, also?: IdempotencyRow): Promise<void>;
  users: UserCache;
  userSessions: UserSessions;
  revocations: Revocations;
  apiKeys: ApiKeyCache;
  agentTokens: AgentTokens;
  invalidations: InvalidationBus;
  /**
   * Authenticates a credential from an input. Throws `ProviderUnavailable` if the identity provider does not answer.
   */
  authenticate(credential: string, attempt: SignInAttempt): Promise<Outcome<Caller>>;
  verifyLogoutToken: LogoutTokenVerifier;
  /** Issues an internal token, signed with the service's key. */
  signToken(token: NewToken): Promise<string>;
  sealedCache: SealedCache;
  cookieSessions: CookieSessions;
  csrf: CsrfTokens;
  handshakes: Handshakes;
  health: Health;
  nodes: NodeAdministration;
  sidecar: Sidecar;
  settings: OperationSettings;
  log: Log;
}

/** The part of the configuration that operations need. */
export interface OperationSettings {
  apiBaseUrl: string;
  mqttUrl: string;
  betaDeviceLimit: number;
  defaultTier: string;
  /** Seconds after a sign-in during which it can approve command lines; their tokens end by then as well. */
  sessionMaxAgeS: number;
  /** Requests a minute by tier; 0 is unlimited. */
  rateLimits: Readonly<Record<string, number>>;
  /** Requests a minute of one key or user within a tenant, by tier; none for a tier without one. */
  credentialRateLimits: Readonly<Record<string, number>>;
  /** Requests a minute with credentials from one client address; 0 is unlimited. */
  addressRateLimit: number;
  /** What tenants may have, by tier. */
  quotas: Quotas;
  /** How long the history of devices is retained, by tier. */
  historyRetention: HistoryRetention;
  /** Bytes of reports that a device may store for its history a day; null: any number. */
  historyBytes: number | null;
  /** How long commands are kept after they have ended. */
  commandRetentionDays: number;
  /**
   * Ed25519 keys that sign messages to Ed25519 devices, 32 raw bytes, base64url: the current one, then those that will
   * sign or have signed.
   */
  cloudPublicKeys: readonly string[];
  changelog: readonly ChangelogEntry[];
  /** Whether everyone may read counts over all tenants: `METRICS_TOKEN` is not set. */
  publicCounts: boolean;
}

/**
 * An operation of the API, the same on every protocol. The schemas validate, document and type it; `perform` checks
 * role and scope, so no edge can bypass them.
 */
export interface Operation<
  In extends ZodType = ZodType,
  Out extends ZodType = ZodType,
  Need extends keyof Services = keyof Services,
> {
  /** camelCase, unique: OpenAPI's `operationId`. */
  name: string;
  summary: string;
  /** One input object: path parameters, query parameters and body members by their wire names. */
  input: In;
  output: Out;
  /** `none` needs no tenant; null needs no authentication. */
  role: Role | null;
  scope: NeededScope | null;
  /** A scope that it needs as well: `execute:commands` for everything that leads to commands. */
  alsoScope?: NeededScope;
  /** Changes something: refused under `maintenance_mode` unless `inMaintenance`. */
  changes: boolean;
  inMaintenance?: boolean;
  /** Whether a request, as it was given, changes nothing, such as a dry run: `maintenance_mode` does not refuse it. */
  changesNothing?(given: unknown): boolean;
  /** A second flag, in addition to `maintenance_mode`, under which it is refused. */
  stoppedBy?: Exclude<Flag, 'maintenance_mode'>;
  /** Allowed while the tenant is suspended. */
  inSuspension?: boolean;
  /** Only for platform operators. */
  platformOnly?: boolean;
  /**
   * A platform operator may run it for any tenant, given by the input's `tenant_id`, whatever their own tenant and
   * role; other callers may not send one. Resolved by `targetTenant`.
   */
  acrossTenants?: boolean;
  /** Not for API keys: only a person changes keys, members and policy (contract §3). */
  personOnly?: boolean;
  /**
   * How it treats restricted API keys (decision 55); without it, it refuses them. `devices`: it shows or concerns only
   * devices that the key reaches, and places as far as the key sees them; `actions`: besides, it refuses actions that the
   * key must not command; `unaffected`: it shows nothing of devices and places, and does nothing with them.
   */
  restrictedKeys?: 'devices' | 'actions' | 'unaffected';
  /**
   * How it is audited (contract §6): `journal` if the changed actors' journals record it, `none` if it needs no audit,
   * `read` if it changes nothing and shows several tenants to a platform operator. By default, an operation that changes
   * something writes an audit row, and so does an operator's read in a tenant that is not their own.
   */
  audit?: 'journal' | 'none' | 'read';
  /** Subject of that row, such as `home:<id>`. Default: the last id in the input, or the tenant. */
  auditSubject?(call: Call<z.infer<In>>, body: z.infer<Out>): AuditSubject;
  /** Without a caller, a device's signature in the body authenticates the request; failures count as failed sign-ins. */
  signedByDevice?: true;
  /** Needs no authentication, but uses a valid credential if one was presented. */
  optionalAuth?: boolean;
  /** The body is streamed as `Call.upload` instead of JSON. */
  upload?: Upload;
  /** Answers with a file of this media type; `output` is null. */
  download?: string;
  /** Answers with a stream of one of these media types, which may get parameters; `output` is null. Only in the REST API. */
  streams?: readonly string[];
  /** Names of the services that `policy` and `run` receive; the object that is passed has no others. */
  needs: readonly Need[];
  /** Checks the tenant's policy before a stored answer is looked up (contract §2). */
  policy?(services: Pick<Services, Need>, call: Pick<Call<z.infer<In>>, 'input' | 'caller'>): Promise<Outcome<null>>;
  /** Answers have an entity tag: a GET with a matching `If-None-Match` is 304. */
  tagged?: true;
  /** JSON Schema keywords for what only the checks of `input` require of the body; for the API reference. */
  bodyRules?: JsonObject;
  /** Body by status, if `output` has several shapes; for the API reference. */
  responses?: Readonly<Record<number, { when: string; body: ZodType }>>;
  /** Refusals in addition to those of `perform`, for the API reference. */
  refuses?: readonly RefusalCode[];
  /** An example request and answer, for the API reference. */
  example?: { input?: Partial<z.input<In>>; output?: z.input<Out> };
  /** Further named examples of the answer. */
  examples?: Readonly<Record<string, { summary: string; output: z.input<Out> }>>;
  run(services: Pick<Services, Need>, call: Call<z.infer<In>>): Promise<Outcome<Answer<z.infer<Out>>>>;
}

/** Identity function that infers the types from the schemas and from `needs`. */
export const operation = <In extends ZodType, Out extends ZodType, Need extends keyof Services>(
  definition: Operation<In, Out, Need>,
): Operation<In, Out, Need> => definition;

/** The caller's tenant, in an operation whose role is above `none`: `perform` has checked that there is one. */
export function tenantOf(caller: Caller): Uuid {
  if (caller.tenantId === null)
    throw new Error('tenantOf called without a tenant: the operation needs a role above none');
  return caller.tenantId;
}

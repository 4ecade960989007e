import type { ZodType, z } from 'zod';
import type { Actors, DeviceSessions } from '../actors/contract.ts';
import type { Clock } from '../domain/clock.ts';
import type { Log } from '../domain/log.ts';
import type { Outcome, RefusalCode } from '../domain/refusals.ts';
import type { Role } from '../domain/roles.ts';
import type { NeededScope, Scope } from '../domain/scopes.ts';
import type { EpochMs, Json, Principal, Uuid } from '../domain/values.ts';
import type { AgentTokens } from '../services/agent-tokens.ts';
import type { ApiKeyCache } from '../services/api-key-cache.ts';
import type { Artifacts } from '../services/artifacts.ts';
import type { AuditWriter } from '../services/audit-writer.ts';
import type { ChangelogEntry } from '../services/changelog.ts';
import type { CookieSessions } from '../services/cookie-sessions.ts';
import type { CsrfTokens } from '../services/csrf-tokens.ts';
import type { DeviceActivityLog } from '../services/device-activity-log.ts';
import type { Flag } from '../services/flags.ts';
import type { Handshakes } from '../services/handshakes.ts';
import type { Health } from '../services/health.ts';
import type { InvalidationBus } from '../services/invalidation-bus.ts';
import type { Locks } from '../services/locks.ts';
import type { ManifestCache } from '../services/manifest-cache.ts';
import type { SealedCache } from '../services/sealed-cache.ts';
import type { Sidecar } from '../services/sidecar.ts';
import type { NewToken, Revocations, TokenRef } from '../services/tokens.ts';
import type { UserCache } from '../services/user-cache.ts';
import type { RateLimiter } from '../store/contract/rate-limiter.ts';
import type { Cache, IdempotencyRow, Store, User } from '../store/contract.ts';

/** Who calls, as the identity check of an edge found out; what they may do is decided in the operations. */
export interface Caller {
  /** Null only where an operation needs no authentication. */
  user: User | null;
  principal: Principal;
  tenantId: Uuid | null;
  role: Role;
  /** Null: all that the role allows. Empty: nothing. */
  scopes: readonly Scope[] | null;
  platformAdmin: boolean;
  /** They came with a browser's cookie session. */
  cookie?: true;
  /** The presented token, for logout and for connections that must end with it. */
  token: TokenRef | null;
  /** When what they presented ends by itself; null for a key without an end. */
  endsAt: EpochMs | null;
  requestId: Uuid;
  /** Of the client, where the edge counts its failed sign-ins. */
  address?: string | null;
  /** What came in cookies, whoever the caller is; only where a browser may have sent the request. */
  cookies?: BrowserCookies;
}

/** The cookies that the service knows, as they were sent: unchecked. */
export interface BrowserCookies {
  session: string | null;
  csrf: string | null;
}

/** A cookie that an answer sets, or with a null value clears. */
export interface CookieChange {
  name: keyof BrowserCookies;
  value: string | null;
  /** Null: until the browser ends. */
  until: EpochMs | null;
}

/** What an operation answers beside its body. */
export interface Answer<Output> {
  body: Output;
  /** Where it is not the operation's usual one: 200 or 409 of a dry run. */
  status?: number;
  /** What the row in the audit is about, where only the doing tells. */
  about?: AuditSubject;
  /** Of a list that is a bare array, the cursor of its next page; null on the last one. */
  next?: string | null;
  /** Of a list, the cursor after each entry of this page, on wires that have one for each. */
  cursors?(): string[];
  /** Instead of a body, for an operation that `gives` something. */
  file?: StoredFile;
  /** On wires that have them. */
  cookies?: readonly CookieChange[];
}

/** A file on this machine, which is answered in parts as they are asked for. */
export interface StoredFile {
  /** Absolute. */
  path: string;
  /** What a browser would keep it as: no quotes, no separators. */
  name: string;
  /** Strong: the same tag, the same bytes. */
  etag: string;
}

/** A body that is no JSON and is not held in memory. */
export interface Upload {
  /** Its media type. */
  type: string;
  maxBytes: number;
}

/**
 * The stored answer of an idempotent request (contract §2). An operation hands `row` to the store with its effect; one
 * that writes nothing, or has several targets, leaves the keeping of the answer to `perform`.
 */
export interface IdempotencyRecord {
  /** Seals the answer into what the store keeps. `subject`: whose secret it holds, so that it can be dropped. */
  toRow(answer: Answer<unknown>, subject?: string): IdempotencyRow;
  /** For several targets: kept before the effects, with the ids they will have. */
  reserve(plan: Json): Promise<void>;
  /** What an earlier try planned before it was cut off, or null. */
  reserved: Json;
  /** True once `row` was called: the answer stands or falls with the effect. Else `perform` keeps it afterwards. */
  rowCreated: boolean;
}

export interface Call<Input> {
  input: Input;
  caller: Caller;
  /** Null where the caller sent no `Idempotency-Key`. */
  idempotent: IdempotencyRecord | null;
  /** What is uploaded, where the operation `takes` something; iterating throws `UploadBroken` where it broke off. */
  upload?: AsyncIterable<Uint8Array> | null;
}

/** Where a credential comes from; failures are counted by address. */
export interface SignInAttempt {
  via: string;
  requestId: Uuid;
  address: string | null;
}

/** What a row of the audit is about; `tenantId` where it is not the caller's, `by` where the caller signs in with it. */
export type AuditSubject = string | { subject: string; tenantId?: Uuid | null; by?: Uuid };

/** What operations work with; `main` makes it once. */
export interface Services {
  store: Store;
  cache: Cache;
  rates: RateLimiter;
  actors: Actors;
  sessions: DeviceSessions;
  deviceActivity: DeviceActivityLog;
  manifests: ManifestCache;
  artifacts: Artifacts;
  locks: Locks;
  audit: AuditWriter;
  clock: Clock;
  /** UUID version 7. */
  newId(): Uuid;
  seal(plain: string, boundTo: string): string;
  open(sealed: string, boundTo: string): string;
  flags(): Readonly<Record<Flag, boolean>>;
  /** Durable when it resolves, with the stored answer of an idempotent request. */
  setFlag(flag: Flag, state: boolean, also?: IdempotencyRow): Promise<void>;
  users: UserCache;
  revocations: Revocations;
  apiKeys: ApiKeyCache;
  agentTokens: AgentTokens;
  invalidations: InvalidationBus;
  /** Who a credential that came in an input stands for. Throws `ProviderAway` where that cannot be told. */
  authenticate(credential: string, asking: SignInAttempt): Promise<Outcome<Caller>>;
  /** An internal token, signed with the service's key. */
  signToken(token: NewToken): Promise<string>;
  sealedCache: SealedCache;
  cookieSessions: CookieSessions;
  csrf: CsrfTokens;
  handshakes: Handshakes;
  health: Health;
  sidecar: Sidecar;
  settings: Settings;
  log: Log;
}

/** The part of the configuration that operations need. */
export interface Settings {
  apiBaseUrl: string;
  mqttUrl: string;
  betaDeviceLimit: number;
  defaultTier: string;
  /** Seconds from a sign-in until which command lines can be signed in by it, and until which their tokens last. */
  sessionMaxAgeS: number;
  /** Requests a minute by tier; 0 is unlimited. */
  rateLimits: Readonly<Record<string, number>>;
  /** Ed25519 keys that sign what Ed25519 devices receive: 32 raw bytes, base64url, newest first. */
  cloudPublicKeys: readonly string[];
  changelog: readonly ChangelogEntry[];
}

/**
 * One thing a caller may ask, whatever wire it came on. The schemas validate, document and type it; role and scope are
 * checked by `perform`, so that no edge can miss them.
 */
export interface Operation<In extends ZodType = ZodType, Out extends ZodType = ZodType> {
  /** camelCase, unique: OpenAPI's `operationId`. */
  name: string;
  summary: string;
  /** One input object: path and query parameters and body members by their wire names. */
  input: In;
  output: Out;
  /** `none` needs no tenant; null needs no authentication. */
  role: Role | null;
  scope: NeededScope | null;
  /** Changes something: refused under `maintenance_mode` unless `inMaintenance`. */
  changes: boolean;
  inMaintenance?: boolean;
  /** The flag, beside `maintenance_mode`, under which it is refused. */
  stoppedBy?: Exclude<Flag, 'maintenance_mode'>;
  /** Answers even when the tenant is suspended. */
  inSuspension?: boolean;
  /** Only for platform operators. */
  platformOnly?: boolean;
  /**
   * A platform operator may ask it of any tenant, by its member `tenant_id`, whatever tenant and role are their own; nobody
   * else may name one. `askedTenant` finds out which it is.
   */
  acrossTenants?: boolean;
  /** Never for an API key: a person changes keys, members and policy (contract §3). */
  personOnly?: boolean;
  /**
   * How what it changed is audited (contract §6): `journal` where it is told by the journals of the actors that it changed,
   * `none` where nobody would ask who did it. Without either, what changes something gets a row of its own.
   */
  audit?: 'journal' | 'none';
  /** What such a row is about, as `home:<id>`. Without it the last of the ids that the input names, or the tenant. */
  auditSubject?(call: Call<z.infer<In>>, body: z.infer<Out>): AuditSubject;
  /** Needs no authentication, but looks at the caller where a good credential was presented. */
  optionalAuth?: boolean;
  /** Its body is no JSON: `Call.upload`. */
  upload?: Upload;
  /** Answers a file of this media type; `output` is null. */
  download?: string;
  /** What the tenant's policy says, asked before a stored answer is looked up (contract §2). */
  policy?(services: Services, call: Pick<Call<z.infer<In>>, 'input' | 'caller'>): Promise<Outcome<null>>;
  /** Where the status tells shapes of `output` apart, for the API reference. */
  responses?: Readonly<Record<number, { when: string; body: ZodType }>>;
  /** Further refusals it may answer with, for the API reference; those of `perform` are known. */
  refuses?: readonly RefusalCode[];
  /** An example of its body and answer, for the API reference. */
  example?: { input?: Partial<z.input<In>>; output?: z.input<Out> };
  /** Examples of its answer where one does not do, by a name. */
  examples?: Readonly<Record<string, { summary: string; output: z.input<Out> }>>;
  run(services: Services, call: Call<z.infer<In>>): Promise<Outcome<Answer<z.infer<Out>>>>;
}

/** Keeps the inferred types of an operation's schemas. */
export const operation = <In extends ZodType, Out extends ZodType>(
  definition: Operation<In, Out>,
): Operation<In, Out> => definition;

/** The caller's tenant, in an operation whose role is above `none`: `perform` let nobody in without one. */
export function tenantOf(caller: Caller): Uuid {
  if (caller.tenantId === null) throw new Error('an operation without a tenant asked for one');
  return caller.tenantId;
}

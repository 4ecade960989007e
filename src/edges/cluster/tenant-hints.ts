import type { IncomingMessage } from 'node:http';
import { MAX_TRIED_CAS } from '../../domain/device-ca.ts';
import { isObject } from '../../domain/json/value.ts';
import { UUID } from '../../domain/uuid.ts';
import type { Uuid } from '../../domain/values.ts';
import { isTicket, peekTicket } from '../../operations/identity/websocket-tickets.ts';
import type { Services } from '../../operations/operation.ts';
import { type Certificate, isIssuedBy, parseCertificate } from '../../protocol/certificate.ts';
import type { Authenticator, CredentialOwner } from '../shared/authenticator.ts';
import type { AddressOf } from '../shared/client-address.ts';
import type { Cookies } from '../shared/cookies.ts';
import { credentialIn } from '../shared/http.ts';
import type { RequestRateLimiter } from '../shared/rate-limiter.ts';
import { peekBody } from './peek-body.ts';

export interface TenantHintParts {
  identity: Pick<Authenticator, 'ownerOf'>;
  services: Pick<Services, 'cookieSessions' | 'sealedCache' | 'store' | 'users'>;
  cookies: Pick<Cookies, 'read'>;
  rateLimiter: Pick<RequestRateLimiter, 'signInRefusal' | 'recordFailedSignIn'>;
  addressOf: AddressOf;
}

/** A value, or a promise of it if it is not in memory. */
type Found<T> = T | Promise<T>;

/** The tenant whose owner serves a request or connection; null: the node where it arrived. */
export type TenantHint = Found<Uuid | null>;

/**
 * Finds the tenant of a request or connection before it is authenticated, to send it to the node that owns the tenant.
 * A hint decides nothing else: the owner authenticates in full. All methods may throw `StoreUnavailable`.
 */
export class TenantHints {
  readonly #parts: TenantHintParts;

  constructor(parts: TenantHintParts) {
    this.#parts = parts;
  }

  /**
   * The hint of a request. Reads the body of a platform operator's GraphQL or MCP request, and of a device's
   * check for firmware, and puts it back.
   */
  ofRequest(request: IncomingMessage): TenantHint {
    const url = targetOf(request);
    if (OF_THE_PROCESS.test(url)) return null;
    const administered = administeredTenant(url);
    if (administered !== null) return administered;
    if (isSignedCheck(request)) return this.#tenantOfSignedCheck(request);
    return mapped(this.#ownerOf(request), (owner) => (owner === null ? null : this.#tenantOf(owner, request)));
  }

  /** The hint of a WebSocket handshake, whose credential is in the query: a token, an API key or a ticket. */
  ofUpgrade(request: IncomingMessage): TenantHint {
    const [, query = ''] = targetOf(request).split('?', 2);
    const parameters = new URLSearchParams(query);
    const credential = parameters.get('token');
    if (credential === null) return null;
    return mapped(this.#ownerOfCredential(credential, this.#parts.addressOf(request)), (owner) => {
      if (owner === null) return null;
      return (owner.platformAdmin ? uuidOrNull(parameters.get('tenant_id')) : null) ?? owner.tenantId;
    });
  }

  /** The hint of a token, an API key or a ticket. `address` is the client's. */
  ofCredential(credential: string, address: string): TenantHint {
    return mapped(this.#ownerOfCredential(credential, address), (owner) => owner?.tenantId ?? null);
  }

  /**
   * The hint of a connection by TLS with a certificate (DER): the tenant of the CA that issued it. A certificate without a
   * CA counts as a failed sign-in of the client's `address`; none is looked up after too many.
   */
  async ofCertificate(der: Buffer, address: string): Promise<Uuid | null> {
    const { rateLimiter } = this.#parts;
    if (rateLimiter.signInRefusal(address) !== null) return null;
    const certificate = parseCertificate(der);
    const tenantId = certificate === null ? null : await this.#tenantOfIssuer(certificate);
    if (tenantId === null) rateLimiter.recordFailedSignIn(address);
    return tenantId;
  }

  /** Nobody is authenticated yet: little is read, and nothing from an address with too many failed sign-ins. */
  #tenantOfSignedCheck(request: IncomingMessage): TenantHint {
    const { rateLimiter, addressOf } = this.#parts;
    if (rateLimiter.signInRefusal(addressOf(request)) !== null) return null;
    return peekBody(request, MAX_SIGNED_CHECK_BYTES).then(tenantOfEnvelope);
  }

  async #tenantOfIssuer(certificate: Certificate): Promise<Uuid | null> {
    const cas = await this.#parts.services.store.deviceCas.bySubject(certificate.issuerHash, {
      ...{ tenantId: null, most: MAX_TRIED_CAS },
    });
    if (cas.length < 2) return cas[0]?.tenantId ?? null;
    const issuer = cas.find((ca) => {
      const authority = parseCertificate(ca.certificate);
      return authority !== null && isIssuedBy(certificate, authority);
    });
    return issuer?.tenantId ?? null;
  }

  /** By the credential in the headers, otherwise by the session cookie: the order of `makeHttpAuthenticator`. */
  #ownerOf(request: IncomingMessage): Found<CredentialOwner | null> {
    const { identity, cookies, addressOf } = this.#parts;
    const credential = credentialIn(request.headers);
    if (credential !== null) return identity.ownerOf(credential, addressOf(request));
    const secret = cookies.read(request.headers, 'session');
    return secret === null ? null : this.#ownerOfSession(secret, request);
  }

  #ownerOfCredential(credential: string, address: string): Found<CredentialOwner | null> {
    const { identity, services, rateLimiter } = this.#parts;
    if (!isTicket(credential)) return identity.ownerOf(credential, address);
    return rateLimiter.signInRefusal(address) === null ? peekTicket(services, credential) : null;
  }

  #ownerOfSession(secret: string, request: IncomingMessage): Found<CredentialOwner | null> {
    const { services, rateLimiter, addressOf } = this.#parts;
    const { cookieSessions, users } = services;
    if (!cookieSessions.isCached(secret) && rateLimiter.signInRefusal(addressOf(request)) !== null) return null;
    return mapped(cookieSessions.find(secret), (session) => {
      if (session === null) return null;
      const { userId, platformAdmin } = session;
      return mapped(
        users.cached(userId) ?? users.get(userId),
        (user) => user && { userId, tenantId: user.tenantId, platformAdmin },
      );
    });
  }

  #tenantOf({ userId, tenantId, platformAdmin }: CredentialOwner, request: IncomingMessage): TenantHint {
    // A user without a tenant is served by the owner of the shard that the user's id falls into: an MCP session stays at
    // one node, and a tenant is registered at a node that owns a shard.
    const own = tenantId ?? (platformAdmin && !isMcp(request) ? null : userId);
    if (!platformAdmin) return own;
    const named = namedInQuery(targetOf(request));
    if (named !== null) return named;
    return mayNameTenant(request) ? peekBody(request).then((body) => namedInText(body) ?? own) : own;
  }
}

function mapped<T, U>(value: Found<T>, map: (value: T) => Found<U>): Found<U> {
  return value instanceof Promise ? value.then(map) : map(value);
}

/** The target of a request, without scheme and authority if it has them (RFC 9112, section 3.2.2). */
export const targetOf = ({ url = '/' }: IncomingMessage): string =>
  url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?]*(?=\/)/i, '');

const pathOf = (url: string): string => url.split('?', 1)[0] as string;

const uuidOrNull = (text: string | null): Uuid | null => (text !== null && UUID.test(text) ? text.toLowerCase() : null);

const UUID_TEXT = UUID.source.slice(1, -1);
const ADMINISTERED = new RegExp(`^(?:/api)?/v1/admin/tenants/(${UUID_TEXT})/`);

/** Health checks and metrics: with a credential too, they are about the process that the request reached. */
const OF_THE_PROCESS = /^(?:(?:\/api)?\/v1)?\/(?:health|metrics)(?:[/?]|$)/;

/** The tenant in a path of platform administration, which is refused for anyone else on every node. */
function administeredTenant(url: string): Uuid | null {
  return url.includes('/v1/admin/tenants/') ? uuidOrNull(ADMINISTERED.exec(url)?.[1] ?? null) : null;
}

const isMcp = (request: IncomingMessage): boolean => /^\/(?:mcp|sse)(?:[/?]|$)/.test(targetOf(request));

/** Four times the longest envelope of a check. */
const MAX_SIGNED_CHECK_BYTES = 16_384;

/** The tenant that the envelope of a device names; null if the text is none. */
function tenantOfEnvelope(text: string): Uuid | null {
  try {
    const envelope: unknown = JSON.parse(text);
    return isObject(envelope) && typeof envelope.tenant_id === 'string' ? uuidOrNull(envelope.tenant_id) : null;
  } catch {
    return null;
  }
}

const FIRMWARE_CHECK = /^(?:\/api)?\/v1\/firmware\/check\/?(?:\?|$)/;

/** A device's own check for firmware, which names its tenant in the body and has no credential. */
const isSignedCheck = (request: IncomingMessage): boolean => {
  const { authorization, cookie, 'x-api-key': key } = request.headers;
  const isWithout = authorization === undefined && key === undefined && cookie === undefined;
  return isWithout && request.method === 'POST' && FIRMWARE_CHECK.test(targetOf(request));
};

/** `tenant_id` of REST, or the query of a GraphQL request by GET. */
function namedInQuery(url: string): Uuid | null {
  const at = url.indexOf('?');
  if (at === -1 || !/tenant/i.test(url)) return null;
  const query = new URLSearchParams(url.slice(at + 1));
  return (
    uuidOrNull(query.get('tenant_id')) ?? namedInText(`${query.get('query') ?? ''}${query.get('variables') ?? ''}`)
  );
}

/**
 * Whether the body can name a tenant. The requests of an MCP session, whose state is at one node, all go to the owner of
 * its user's tenant.
 */
function mayNameTenant(request: IncomingMessage): boolean {
  const { method, headers } = request;
  if (method !== 'POST') return false;
  const path = pathOf(targetOf(request)).replace(/\/$/, '');
  return path === '/graphql' || (path === '/mcp' && headers['mcp-session-id'] === undefined);
}

const NAMED = new RegExp(`\\btenant(?:Id|_id)\\\\?"?\\s*:\\s*\\\\?"(${UUID_TEXT})\\\\?"`);
/** The name of a variable becomes part of a regular expression, whose length is limited. */
const NAMED_BY_VARIABLE = /\btenantId\s*:\s*\$(\w{1,100})\b/;

/**
 * The first tenant in the text of a GraphQL document, its variables, or arguments of an MCP tool: a value, or a variable
 * with any name. Quotes may be escaped, as in a JSON string.
 */
function namedInText(text: string): Uuid | null {
  const [, value] = NAMED.exec(text) ?? [];
  if (value !== undefined) return value.toLowerCase();
  const [, name] = NAMED_BY_VARIABLE.exec(text) ?? [];
  if (name === undefined) return null;
  return uuidOrNull(new RegExp(`"${name}"\\s*:\\s*"(${UUID_TEXT})"`).exec(text)?.[1] ?? null);
}

import type { Config } from '../config.ts';
import { apiKeyVerifier } from '../edges/shared/api-key-verifier.ts';
import { Authenticator, internalTokenVerifier } from '../edges/shared/authenticator.ts';
import { type AddressOf, clientAddress } from '../edges/shared/client-address.ts';
import { type HttpAuthenticator, makeHttpAuthenticator } from '../edges/shared/http-authenticator.ts';
import { metricsTokenCheck } from '../edges/shared/metrics-access.ts';
import type { BrowserSignIn } from '../edges/shared/oidc/browser-sign-in.ts';
import { fixedRates, makeRequestRateLimiter, type RequestRateLimiter } from '../edges/shared/rate-limiter.ts';
import { IdempotencyKeys } from '../operations/idempotency.ts';
import { makePerform, type Perform } from '../operations/perform.ts';
import type { LogoutTokenVerifier } from '../services/provider-logout.ts';
import type { Core } from './compose-core.ts';
import type { ComposedServices } from './compose-services.ts';
import { makeIdentityProvider } from './sign-in-services.ts';

/** The parts with which every edge authenticates, limits and performs requests. */
export interface RequestHandling {
  rateLimiter: RequestRateLimiter;
  addressOf: AddressOf;
  identity: Authenticator;
  authenticator: HttpAuthenticator;
  /** Null without an identity provider that has a client. */
  browserSignIn: BrowserSignIn | null;
  /** Likewise. */
  verifyLogout: ReturnType<LogoutTokenVerifier>;
  idempotencyKeys: IdempotencyKeys;
  perform: Perform;
  /** Base URL for clients, without a trailing slash. */
  publicUrl(): string;
}

export function composeRequestHandling(config: Config, core: Core, composed: ComposedServices): RequestHandling {
  const { clock, newId, log, limits, liveness, membership } = core;
  const publicAddressOf = clientAddress(config.trustedProxies);
  const { services, callers, sealer, tokenKey } = composed;
  const { settings } = services;
  const rateLimiter = makeRequestRateLimiter(services, liveness, { ...fixedRates, ...limits.rates });
  const redirectUri = () => `${settings.apiBaseUrl}/auth/callback`;
  const identityProvider = makeIdentityProvider(config.oidc, { sealer, clock, log, redirectUri });
  const identity = new Authenticator({
    ...callers,
    verifiers: [apiKeyVerifier(callers.apiKeys), internalTokenVerifier(tokenKey, clock), ...identityProvider.verifiers],
    audit: composed.audit,
    ...{ rateLimiter, clock, newId, log },
  });
  const secure = config.tls !== null || config.publicUrl?.startsWith('https:') === true;
  const idempotencyKeys = new IdempotencyKeys(services);
  return {
    rateLimiter,
    addressOf: membership?.linkSockets.addressOf(publicAddressOf) ?? publicAddressOf,
    identity,
    authenticator: makeHttpAuthenticator({
      ...{ identity, services, secure },
      presentsMetricsToken: metricsTokenCheck(config.metricsToken),
    }),
    browserSignIn: identityProvider.signIn,
    verifyLogout: identityProvider.verifyLogout,
    idempotencyKeys,
    perform: makePerform(services, liveness, idempotencyKeys),
    publicUrl: () => settings.apiBaseUrl.slice(0, -'/v1'.length),
  };
}

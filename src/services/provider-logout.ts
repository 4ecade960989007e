import type { EpochMs } from '../domain/values.ts';
import type { User } from '../store/contract.ts';

/** A logout at the identity provider, from a verified logout token. Has a subject or a session, or both. */
export interface ProviderLogout {
  /** Identifies the logout token among the token ids. */
  id: string;
  expiresAt: EpochMs;
  subject: Pick<User, 'iss' | 'sub'> | null;
  /** The token id of the session at the provider. */
  session: string | null;
}

/** The verifier of logout tokens; null without an identity provider that has a client. */
export type LogoutTokenVerifier = () => ((token: string) => Promise<ProviderLogout | null>) | null;

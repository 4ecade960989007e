import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useRef } from 'react';
import { atLeast, type Role } from '../../src/domain/roles.ts';
import { ask, forgetCsrf, onSignedOut } from './api/client.ts';
import { useGet } from './api/queries.ts';
import type { Me } from './api/shapes.ts';
import { Newcomer } from './shell/newcomer.tsx';
import { discardLink, SignIn } from './shell/sign-in.tsx';
import { Failure, Loading } from './ui/states.tsx';

const ME = '/v1/auth/me';

export interface Session {
  me: Me;
  role: Role;
  platform: boolean;
  /** Whether the role reaches so far. What it does not reach is never asked for: the attempt would be audited. */
  may(role: Role): boolean;
  signOut(): Promise<void>;
}

const Context = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(Context);
  if (session === null) throw new Error('nobody is signed in');
  return session;
}

/** Whoever is not signed in, or has no tenant, is led there first; everything below has a session. */
export function SessionGate({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const { data: me, error, isPending, refetch } = useGet<Me>(ME, { every: 60_000 });
  // Asking again who is there takes nothing away from under who is just signing in.
  const nobody = useRef(false);
  if (error?.status === 401) nobody.current = true;
  else if (me !== undefined) nobody.current = false;
  useEffect(() => {
    if (me !== undefined) discardLink();
  }, [me]);
  useEffect(() => onSignedOut(() => void queries.refetchQueries({ queryKey: [ME] })), [queries]);

  const enter = async (): Promise<void> => {
    forgetCsrf();
    queries.clear();
    await refetch();
  };
  if (nobody.current) return <SignIn entered={enter} />;
  if (isPending) return <Loading what="Signing in" />;
  if (me === undefined) return <Failure problem={error} retry={refetch} />;
  const { role } = me.user;
  const platform = me.platform_admin === true;
  const session: Session = {
    ...{ me, role, platform },
    may: (needed) => atLeast(role, needed),
    async signOut() {
      await ask('POST', '/v1/auth/logout', { body: {} }).catch(() => {});
      await enter();
    },
  };
  return (
    <Context value={session}>{me.has_tenant || platform ? children : <Newcomer me={me} entered={enter} />}</Context>
  );
}

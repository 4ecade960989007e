import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useRef, useState } from 'react';
import { atLeast, type Role } from '../../src/domain/roles.ts';
import type { Me } from './api/answer-types.ts';
import { forgetCsrf, ME_PATH, requestJson, subscribeToSignOut } from './api/client.ts';
import { Problem } from './api/problem.ts';
import { useGet } from './api/queries.ts';
import { discardLink, SignIn } from './shell/sign-in.tsx';
import { Welcome } from './shell/welcome.tsx';
import { LoadError, Loading } from './ui/feedback.tsx';

export interface ConsoleSession {
  me: Me;
  role: Role;
  platform: boolean;
  /** Whether the user has at least this role. Requests beyond it are not sent, because the attempts would be audited. */
  may(role: Role): boolean;
  signOut(): Promise<void>;
  /** Why the last attempt to sign out has failed; null if none has. */
  signOutProblem: Problem | null;
}

const SessionContext = createContext<ConsoleSession | null>(null);

export function useSession(): ConsoleSession {
  const session = useContext(SessionContext);
  if (session === null) throw new Error('useSession requires a signed-in user');
  return session;
}

/** Null for a session that is over already. */
const problemOf = (thrown: unknown): Problem | null =>
  thrown instanceof Problem && thrown.status !== 401 ? thrown : null;

/** Calls `onSignIn` after a sign-in in another tab, such as next to a wall. Returns the function that announces one of this tab. */
function useSignInsElsewhere(onSignIn: () => void): () => void {
  const latest = useRef(onSignIn);
  latest.current = onSignIn;
  const channel = useRef<BroadcastChannel>(null);
  useEffect(() => {
    const opened = new BroadcastChannel('twinkeep.session');
    opened.onmessage = () => latest.current();
    channel.current = opened;
    return () => opened.close();
  }, []);
  return () => channel.current?.postMessage('signed in');
}

/** Shows the sign-in or welcome page until the user is signed in and has a tenant, and then provides the session. */
export function SessionGate({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [isOver, setOver] = useState(false);
  const [signOutProblem, setSignOutProblem] = useState<Problem | null>(null);
  const query = useGet<Me>(ME_PATH, isOver ? {} : { refetchIntervalMs: 60_000 });
  const { data: me, error, isPending, dataUpdatedAt, refetch } = query;
  useEffect(() => subscribeToSignOut(() => setOver(true)), []);
  // A later response with a user: a sign-in here or in another tab.
  useEffect(() => {
    if (dataUpdatedAt === 0) return;
    setOver(false);
    discardLink();
  }, [dataUpdatedAt]);
  // The cached data belongs to the previous user.
  useEffect(() => {
    if (isOver) queries.removeQueries({ predicate: ({ queryKey: [path] }) => path !== ME_PATH });
  }, [isOver, queries]);

  const announce = useSignInsElsewhere(() => isOver && void refetch());
  const reloadSession = async (): Promise<void> => {
    forgetCsrf();
    setSignOutProblem(null);
    queries.clear();
    await refetch();
  };
  if (isOver) return <SignIn onSignedIn={() => reloadSession().then(announce)} />;
  if (isPending) return <Loading what="Signing in" />;
  if (me === undefined) return <LoadError problem={error} retry={refetch} />;
  const { role } = me.user;
  const platform = me.platform_admin === true;
  const session: ConsoleSession = {
    ...{ me, role, platform, signOutProblem },
    may: (needed) => atLeast(role, needed),
    async signOut() {
      const problem = await requestJson('POST', '/v1/auth/logout', { body: {} }).then(() => null, problemOf);
      setSignOutProblem(problem);
      if (problem === null) await reloadSession();
    },
  };
  return (
    <SessionContext value={session}>
      {me.has_tenant || platform ? children : <Welcome me={me} onJoined={reloadSession} />}
    </SessionContext>
  );
}

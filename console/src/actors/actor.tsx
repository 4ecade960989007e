import { useInfiniteQuery } from '@tanstack/react-query';
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { Link } from 'wouter';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { ActorRecord, JournalBody, Machine } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import type { Problem } from '../api/problem.ts';
import { useChange, useGet } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import { useChosenTenant, withTenant } from '../platform/tenant-choice.tsx';
import { ChangeError, LoadError, Loading, Note, Pill } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { Time } from '../ui/time.tsx';
import { iconOf, idSuffix, pathsIn } from './actor-display.ts';
import { ActorSummary } from './actor-summary.tsx';
import { Chart } from './chart.tsx';
import { ActorContext } from './context.tsx';
import { historyStateAfter, initialPaths } from './history-state.ts';
import type { ActorTransition } from './live-actor-list.ts';
import { Replay } from './replay.tsx';
import { StateTable } from './state-table.tsx';
import { stepsOf } from './steps.ts';
import './actor.css';

/** The stream of actors does not include state reports of devices, so the actor is also polled. */
const REFRESH_MS = 5_000;
const JOURNAL_PAGE = 100;

/** Page of one actor: current state, statechart, history and context. */
export function ActorPage({ params }: { params: Readonly<Record<string, string>> }) {
  const kind = params.kind as ActorKind;
  const id = params.id ?? '';
  const path = `/v1/actors/${kind}/${encodeURIComponent(id)}`;
  const tenant = useChosenTenant();
  const actor = useGet<{ actor: ActorRecord }>(withTenant(path, tenant), { refetchIntervalMs: REFRESH_MS });
  const machine = useGet<{ machine: Machine }>(`/v1/machines/${kind}`);
  const failed = actor.error ?? machine.error;
  if (actor.data === undefined || machine.data === undefined) {
    if (failed !== null && !actor.isFetching)
      return <ActorUnavailable kind={kind} id={id} tenant={tenant} problem={failed} retry={actor.refetch} />;
    return <Loading what="Loading actor" />;
  }
  return (
    <ActorDetails
      key={`${tenant} ${path}`}
      path={path}
      tenant={tenant}
      actor={actor.data.actor}
      machine={machine.data.machine}
      refetch={actor.refetch}
    />
  );
}

interface ActorUnavailableProps {
  kind: string;
  id: string;
  tenant: string | null;
  problem: Problem;
  retry(): unknown;
}

const ActorUnavailable = ({ kind, id, tenant, problem, retry }: ActorUnavailableProps) => (
  <>
    <header className="page-head">
      <h1>
        {kind} …{idSuffix(id)}
      </h1>
    </header>
    <LoadError problem={problem} retry={retry} />
    <p>
      <Link href={withTenant('/actors', tenant)}>All actors</Link>
    </p>
  </>
);

interface ActorDetailsProps {
  path: string;
  tenant: string | null;
  actor: ActorRecord;
  machine: Machine;
  refetch(): Promise<unknown>;
}

function ActorDetails({ path, tenant, actor, machine, refetch }: ActorDetailsProps) {
  const { kind, id } = actor;
  const journal = useJournal(path, tenant, actor.version);
  const [transitions, setTransitions] = useState<readonly ActorTransition[]>([]);
  const reload = useCallback(() => Promise.all([refetch(), journal.reload()]), [refetch, journal.reload]);
  useStream({
    path: '/ws/actors',
    query: { kind, ...(tenant && { tenant_id: tenant }) },
    onMessage(message) {
      const transition = message as ActorTransition;
      if (transition.id !== id) return;
      setTransitions((before) => [...before, transition]);
      void reload();
    },
    onOpen: () => void reload(),
  });
  // Counted from the end, so that the selected step does not change when earlier steps are loaded.
  const [back, setBack] = useState<number | null>(null);
  const { newestFirst } = journal;
  const steps = useMemo(() => stepsOf(newestFirst, transitions, actor), [newestFirst, transitions, actor]);
  const at = back === null ? null : Math.max(0, steps.length - 1 - back);
  const setAt = useCallback((to: number | null) => setBack(to === null ? null : steps.length - 1 - to), [steps.length]);
  const step = steps[at ?? steps.length - 1];
  const historyState = useMemo(() => {
    const accepted = at === null ? actor.next_events : [];
    if (step !== undefined && (at !== null || step.to === actor.state))
      return historyStateAfter(machine, step, accepted);
    return {
      entered: pathsIn(actor.state || initialPaths(machine).join()),
      before: null,
      event: null,
      acceptedEvents: new Set(accepted),
    };
  }, [machine, step, at, actor.state, actor.next_events]);

  return (
    <>
      <Head actor={actor} tenant={tenant} />
      <QuarantineNotice actor={actor} path={path} tenant={tenant} reload={reload} />
      <ActorSummary actor={actor} machine={machine} steps={steps} />
      <section className="card machine" aria-labelledby="machine">
        <header>
          <h2 id="machine">Statechart</h2>
          <Legend />
        </header>
        {actor.machine_version !== machine.version && (
          <Note tone="warn">
            This actor runs version {actor.machine_version} of its machine; the chart shows version {machine.version}.
          </Note>
        )}
        <Replay entries={steps} at={at} onSeek={setAt} loadEarlier={journal.older} actor={actor} />
        <Chart machine={machine} historyState={historyState} />
        {step?.data && (
          <details>
            <summary>Journal data of this step</summary>
            <ActorContext context={step.data} />
          </details>
        )}
        <StateTable machine={machine} historyState={historyState} />
      </section>
      <section className="card" aria-labelledby="context">
        <header>
          <h2 id="context">Context</h2>
          <span className="quiet small">{at === null ? '' : 'of the current state, '}without secrets</span>
        </header>
        <ActorContext context={actor.context} />
      </section>
    </>
  );
}

function Head({ actor, tenant }: { actor: ActorRecord; tenant: string | null }) {
  const { kind, id, name, live, mailbox, version, since, machine_version } = actor;
  return (
    <header className="page-head actor-head">
      <div>
        <p className="crumbs">
          <Link href={withTenant('/actors', tenant)}>Actors</Link> ›{' '}
          <Link href={withTenant(`/actors?kind=${kind}`, tenant)}>{kind}</Link>
        </p>
        <h1>
          <Icon name={iconOf(kind)} /> {name ?? `${kind} ${idSuffix(id)}`}
        </h1>
        <p className="mono quiet small">{id}</p>
      </div>
      <dl className="actor-facts">
        <Fact name="Memory">{live ? <Pill tone="good">active</Pill> : <Pill tone="quiet">passivated</Pill>}</Fact>
        <Fact name="Mailbox">{mailbox === 0 ? 'empty' : `${mailbox} queued`}</Fact>
        <Fact name="Version">
          {version} <span className="quiet small">of machine {machine_version}</span>
        </Fact>
        <Fact name="In this state">
          <Time at={since} />
        </Fact>
      </dl>
    </header>
  );
}

const Fact = ({ name, children }: { name: string; children: ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

/** Shown only for a quarantined actor. */
function QuarantineNotice({
  actor,
  path,
  tenant,
  reload,
}: Omit<ActorDetailsProps, 'machine' | 'refetch'> & { reload(): Promise<unknown> }) {
  const release = useChange([path, '/v1/actors']);
  if (!actor.quarantined) return <ChangeError error={release.error} />;
  return (
    <Note tone="bad">
      <p>
        <strong>Quarantined.</strong> The actor processes no events until it is released. {actor.quarantine_reason}
      </p>
      <button
        type="button"
        className="button"
        disabled={release.isPending}
        onClick={() =>
          release.mutate(
            { method: 'POST', path: withTenant(`${path}/release`, tenant), body: {} },
            { onSettled: () => void reload() },
          )
        }
      >
        Release
      </button>
      <ChangeError error={release.error} />
    </Note>
  );
}

const Legend = () => (
  <ul className="legend small quiet">
    <li className="is-lit">current state</li>
    <li className="is-took">last transition</li>
    <li className="is-can">possible transition</li>
  </ul>
);

/** The newest page of the actor's journal, and older pages on demand. */
function useJournal(path: string, tenant: string | null, version: number) {
  const query = useInfiniteQuery<JournalBody, Problem, { pages: JournalBody[] }, string[], string | null>({
    queryKey: [withTenant(`${path}/journal`, tenant)],
    queryFn: ({ pageParam }) =>
      requestJson(
        'GET',
        withTenant(`${path}/journal?limit=${JOURNAL_PAGE}${pageParam === null ? '' : `&cursor=${pageParam}`}`, tenant),
      ),
    initialPageParam: null,
    getNextPageParam: ({ next_cursor }) => next_cursor,
  });
  const { data, refetch, fetchNextPage, hasNextPage } = query;
  const loadedVersion = useRef(version);
  useEffect(() => {
    if (loadedVersion.current === version) return;
    loadedVersion.current = version;
    void refetch();
  }, [version, refetch]);
  const newestFirst = useMemo(() => data?.pages.flatMap(({ entries }) => entries) ?? [], [data]);
  const reload = useCallback(() => refetch(), [refetch]);
  return {
    newestFirst,
    reload,
    /** Loads an older page; null if there is none. */
    older: hasNextPage ? () => void fetchNextPage() : null,
  };
}

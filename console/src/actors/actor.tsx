import { useInfiniteQuery } from '@tanstack/react-query';
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { Link } from 'wouter';
import type { ActorKind, ActorRecord, JournalPage, Machine } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import type { Problem } from '../api/problem.ts';
import { useChange, useGet } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import { useChosenTenant, withTenant } from '../platform/tenant-choice.tsx';
import { ChangeError, LoadError, Loading, Note, Pill } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { Time } from '../ui/time.tsx';
import { iconOf, idSuffix, pathsIn } from './actor-display.ts';
import { Chart } from './chart.tsx';
import { ActorContext } from './context.tsx';
import { Insight } from './insight.tsx';
import type { ActorTransition } from './live-actor-list.ts';
import { initialPaths, momentAfter } from './moment.ts';
import { Replay } from './replay.tsx';
import { StateTable } from './state-table.tsx';
import { stepsOf } from './steps.ts';
import './actor.css';

/** What devices report all the time is told by no stream of actors. */
const EVERY_MS = 5_000;
const JOURNAL_PAGE = 100;

/** One actor: what it is doing and why, its machine, its history, what it remembers. */
export function Actor({ params }: { params: Readonly<Record<string, string>> }) {
  const kind = params.kind as ActorKind;
  const id = params.id ?? '';
  const path = `/v1/actors/${kind}/${encodeURIComponent(id)}`;
  const tenant = useChosenTenant();
  const actor = useGet<{ actor: ActorRecord }>(withTenant(path, tenant), { refetchIntervalMs: EVERY_MS });
  const machine = useGet<{ machine: Machine }>(`/v1/machines/${kind}`);
  const failed = actor.error ?? machine.error;
  if (actor.data === undefined || machine.data === undefined) {
    if (failed !== null && !actor.isFetching)
      return <ActorUnavailable kind={kind} id={id} tenant={tenant} problem={failed} retry={actor.refetch} />;
    return <Loading what="Looking at it" />;
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
  const [heard, setHeard] = useState<readonly ActorTransition[]>([]);
  const reload = useCallback(() => Promise.all([refetch(), journal.reload()]), [refetch, journal.reload]);
  useStream({
    path: '/ws/actors',
    query: { kind, ...(tenant && { tenant_id: tenant }) },
    onMessage(message) {
      const transition = message as ActorTransition;
      if (transition.id !== id) return;
      setHeard((before) => [...before, transition]);
      void reload();
    },
    onOpen: () => void reload(),
  });
  // Counted from the end, so that a step stays the one that is looked at while earlier ones are loaded.
  const [back, setBack] = useState<number | null>(null);
  const { newestFirst } = journal;
  const steps = useMemo(() => stepsOf(newestFirst, heard, actor), [newestFirst, heard, actor]);
  const at = back === null ? null : Math.max(0, steps.length - 1 - back);
  const setAt = useCallback((to: number | null) => setBack(to === null ? null : steps.length - 1 - to), [steps.length]);
  const step = steps[at ?? steps.length - 1];
  const moment = useMemo(() => {
    const takes = at === null ? actor.next_events : [];
    if (step !== undefined && (at !== null || step.to === actor.state)) return momentAfter(machine, step, takes);
    return {
      entered: pathsIn(actor.state || initialPaths(machine).join()),
      before: null,
      event: null,
      takes: new Set(takes),
    };
  }, [machine, step, at, actor.state, actor.next_events]);

  return (
    <>
      <Head actor={actor} tenant={tenant} />
      <QuarantineNotice actor={actor} path={path} tenant={tenant} reload={reload} />
      <Insight actor={actor} machine={machine} steps={steps} />
      <section className="card machine" aria-labelledby="machine">
        <header>
          <h2 id="machine">Its machine</h2>
          <Legend />
        </header>
        {actor.machine_version !== machine.version && (
          <Note tone="warn">
            It still follows version {actor.machine_version} of this machine; drawn is version {machine.version}.
          </Note>
        )}
        <Replay entries={steps} at={at} onSeek={setAt} loadEarlier={journal.older} actor={actor} />
        <Chart machine={machine} moment={moment} />
        {step?.data && (
          <details>
            <summary>What the journal keeps of this step</summary>
            <ActorContext context={step.data} />
          </details>
        )}
        <StateTable machine={machine} moment={moment} />
      </section>
      <section className="card" aria-labelledby="context">
        <header>
          <h2 id="context">What it remembers</h2>
          <span className="quiet small">without secrets</span>
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
      <dl className="facts">
        <Fact name="In memory">{live ? <Pill tone="good">live</Pill> : <Pill tone="quiet">passivated</Pill>}</Fact>
        <Fact name="Mailbox">{mailbox === 0 ? 'empty' : `${mailbox} waiting`}</Fact>
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

/** Only of an actor that is held back. */
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
        <strong>It is held back.</strong> It takes nothing until somebody releases it: {actor.quarantine_reason}
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
        Release it
      </button>
      <ChangeError error={release.error} />
    </Note>
  );
}

const Legend = () => (
  <ul className="legend small quiet">
    <li className="is-lit">where it is</li>
    <li className="is-took">the last step</li>
    <li className="is-can">what it can do now</li>
  </ul>
);

/** The newest pages of its journal, and what is below them where somebody asks. */
function useJournal(path: string, tenant: string | null, version: number) {
  const query = useInfiniteQuery<JournalPage, Problem, { pages: JournalPage[] }, string[], string | null>({
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
  const known = useRef(version);
  useEffect(() => {
    if (known.current === version) return;
    known.current = version;
    void refetch();
  }, [version, refetch]);
  const newestFirst = useMemo(() => data?.pages.flatMap(({ entries }) => entries) ?? [], [data]);
  const reload = useCallback(() => refetch(), [refetch]);
  return {
    newestFirst,
    reload,
    /** Null where nothing is below. */
    older: hasNextPage ? () => void fetchNextPage() : null,
  };
}

import { useState } from 'react';
import { Link } from 'wouter';
import type { getDeviceTimeline } from '../../../src/operations/timeline/timeline.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { usePagedQuery } from '../api/paged-query.ts';
import { useBatchedRefetch } from '../api/use-batched-refetch.ts';
import { commandHref, StatusPill } from '../commands/status.tsx';
import { useStream } from '../live/use-stream.ts';
import { Requester } from '../people/requester.tsx';
import { LoadError, Loading, Pill, type Tone } from '../ui/feedback.tsx';
import { Day, Time } from '../ui/time.tsx';
import { timelineDays } from './days.ts';
import './timeline.css';

type Page = ResponseBody<typeof getDeviceTimeline>;
type Entry = Page['entries'][number];
type Kind = Entry['kind'];

const kinds: Readonly<Record<Kind, { label: string; plural: string; tone: Tone }>> = {
  presence: { label: 'Presence', plural: 'Presence', tone: 'quiet' },
  command: { label: 'Command', plural: 'Commands', tone: 'info' },
  plan: { label: 'Plan', plural: 'Plans', tone: 'info' },
  confirmation: { label: 'Confirmation', plural: 'Confirmations', tone: 'warn' },
  refusal: { label: 'Refusal', plural: 'Refusals', tone: 'bad' },
  firmware: { label: 'Firmware', plural: 'Firmware', tone: 'quiet' },
};

interface TimelineProps {
  /** Path of the timeline in the API, without a query. */
  path: string;
  /** The device, if it is of one; otherwise each entry names its device. */
  deviceId?: string;
}

/** The events of a device, or of the devices of a place: newest first, by day, and up to date while it is shown. */
export function Timeline({ path, deviceId }: TimelineProps) {
  const [wanted, setWanted] = useState<readonly Kind[]>([]);
  const filter = wanted.map((kind) => `&kind=${kind}`).join('');
  const { firstPage, rows, isComplete, problem, isFetching, loadMore, reload } = usePagedQuery<Page, Entry>(
    `${path}?limit=30${filter}`,
    ({ entries }) => entries,
  );
  useTimelineUpdates(path, deviceId);
  const toggle = (kind: Kind): void =>
    setWanted((before) => (before.includes(kind) ? before.filter((one) => one !== kind) : [...before, kind]));
  return (
    <section className="card timeline" aria-labelledby="timeline" aria-busy={isFetching}>
      <header>
        <h2 id="timeline">Timeline</h2>
      </header>
      <fieldset className="timeline-filter">
        <legend className="unseen">Shown kinds of events</legend>
        {(Object.keys(kinds) as Kind[]).map((kind) => (
          <button
            key={kind}
            type="button"
            className="chip"
            aria-pressed={wanted.includes(kind)}
            onClick={() => toggle(kind)}
          >
            {kinds[kind].plural}
          </button>
        ))}
      </fieldset>
      {firstPage === null ? (
        problem === null ? (
          <Loading what="Loading timeline" />
        ) : (
          <LoadError problem={problem} retry={reload} />
        )
      ) : (
        <>
          <LeftOut page={firstPage} />
          {rows.length === 0 && isComplete && (
            <p className="quiet">{wanted.length === 0 ? 'Nothing has happened yet.' : 'No events of these kinds.'}</p>
          )}
          {timelineDays(rows).map(({ day, entries }) => (
            <div key={day}>
              <h3 className="timeline-day">
                <Day at={entries[0]?.at ?? ''} />
              </h3>
              <ol className="timeline-entries">
                {entries.map((entry) => (
                  <Row key={keyOf(entry)} entry={entry} isOfPlace={deviceId === undefined} />
                ))}
              </ol>
            </div>
          ))}
          {!isComplete && (
            <button type="button" className="button" disabled={isFetching} onClick={loadMore}>
              Show older events
            </button>
          )}
        </>
      )}
    </section>
  );
}

const keyOf = ({ at, kind, device_id, command_id, text }: Entry): string =>
  [at, kind, command_id ?? device_id, kind === 'firmware' || kind === 'presence' ? text : ''].join(' ');

function LeftOut({ page: { left_out, devices_left_out } }: { page: Page }) {
  const parts = [
    ...(left_out.length === 0
      ? []
      : [`Your credential may not read: ${left_out.map((kind) => kinds[kind].plural.toLowerCase()).join(', ')}.`]),
    ...(devices_left_out === 0 ? [] : [`The oldest ${devices_left_out} devices are left out.`]),
  ];
  return parts.length === 0 ? null : <p className="quiet small">{parts.join(' ')}</p>;
}

function Row({ entry, isOfPlace }: { entry: Entry; isOfPlace: boolean }) {
  const { at, kind, text, device_id, device_name, by, credential, command_id, plan_id, status } = entry;
  return (
    <li>
      <span className="timeline-time">
        <Time at={at} exact />
      </span>
      <Pill tone={kinds[kind].tone}>{kinds[kind].label}</Pill>
      <div className="timeline-event">
        <p>
          {command_id === null ? text : <Link href={commandHref(command_id)}>{text}</Link>}
          {(kind === 'command' || kind === 'plan') && status !== null && status !== 'succeeded' && (
            <StatusPill status={status} />
          )}
        </p>
        <p className="quiet small">
          {isOfPlace && <Link href={`/devices/${device_id}`}>{device_name ?? device_id}</Link>}
          {by !== null && (
            <span>
              by <Requester of={{ requested_by: by, ...(credential && { requested_with: credential }) }} />
            </span>
          )}
          {plan_id !== null && <Link href={`/plans/${plan_id}`}>Show plan</Link>}
        </p>
      </div>
    </li>
  );
}

/** Refetches are batched over this time, so that many updates cause one request. A page of a place reads many devices. */
const BATCH_MS = { device: 500, place: 3_000 };

/** Refetches the timeline after updates of its device, or, of a place, of any device; one refetch at a time. */
function useTimelineUpdates(path: string, deviceId: string | undefined): void {
  const schedule = useBatchedRefetch([`${path}?`], deviceId === undefined ? BATCH_MS.place : BATCH_MS.device);
  useStream({
    path: '/ws/state',
    query: { events: 'presence,command,confirmation', ...(deviceId !== undefined && { device_id: deviceId }) },
    onMessage: schedule,
    onOpen: schedule,
  });
}

import { useQueries } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { getDeviceTimeline } from '../../../src/operations/timeline/timeline.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { useBatchedRefetch } from '../api/use-batched-refetch.ts';
import { commandHref } from '../commands/status.tsx';
import { useStream } from '../live/use-stream.ts';
import { type ShownTime, windowNow } from './history-request.ts';

type Timeline = ResponseBody<typeof getDeviceTimeline>;
export type EventKind = Timeline['entries'][number]['kind'];

/** An event of a device on the time axis. */
export interface ChartMark {
  key: string;
  at: number;
  kind: EventKind;
  text: string;
  deviceId: string;
  /** Path of the command or the plan in the console; null for an event without one. */
  href: string | null;
}

export interface ChartMarks {
  /** Oldest first. */
  marks: readonly ChartMark[];
  /** There are earlier events that are not loaded. */
  isCut: boolean;
}

/** Events of a device that are shown. */
const MAX_EVENTS = 200;
/** Refetches are batched over this time, so that many updates cause one request. */
const BATCH_MS = 500;

/** The events of the devices in the time, up to date while they are shown. */
export function useMarks(
  deviceIds: readonly string[],
  { time, enabled, isLive }: { time: ShownTime; enabled: boolean; isLive: boolean },
): ChartMarks {
  const shown = enabled ? deviceIds : [];
  const query = timelineQuery(time);
  const results = useQueries({
    queries: shown.map((id) => {
      const path = `/v1/devices/${id}/timeline?limit=${MAX_EVENTS}&${query}`;
      return { queryKey: [path], queryFn: () => requestJson<Timeline>('GET', path) };
    }),
  });
  useEventUpdates(shown, isLive);
  const answers = [...shown, ...results.map(({ dataUpdatedAt }) => dataUpdatedAt)].join(' ');
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each answer, as each list of marks is drawn
  const marks = useMemo(
    () => results.flatMap(({ data }) => (data?.entries ?? []).map(markOf)).sort((one, other) => one.at - other.at),
    [answers],
  );
  return {
    marks,
    isCut: results.some(({ data }) => data !== undefined && data.next_cursor !== null),
  };
}

/** The start is rounded, so that the query stays the same while the window moves. */
function timelineQuery(time: ShownTime): URLSearchParams {
  const { from, to } = windowNow(time);
  if (!('range' in time))
    return new URLSearchParams({ from: new Date(from).toISOString(), to: new Date(to).toISOString() });
  const rounding = (to - from) / 4;
  return new URLSearchParams({ from: new Date(Math.floor(from / rounding) * rounding).toISOString() });
}

export function markOf(entry: Timeline['entries'][number]): ChartMark {
  const { at, kind, text, device_id, command_id, plan_id } = entry;
  return {
    key: [at, kind, command_id ?? text, device_id].join(' '),
    ...{ at: Date.parse(at), kind, text, deviceId: device_id },
    href:
      kind === 'plan' && plan_id !== null ? `/plans/${plan_id}` : command_id === null ? null : commandHref(command_id),
  };
}

function useEventUpdates(deviceIds: readonly string[], isLive: boolean): void {
  const schedule = useBatchedRefetch(
    deviceIds.map((id) => `/v1/devices/${id}/timeline?`),
    BATCH_MS,
  );
  useStream({
    path: '/ws/state',
    query: { events: 'presence,command,confirmation', device_id: [...deviceIds].sort() },
    enabled: isLive && deviceIds.length > 0,
    onMessage: schedule,
    onOpen: schedule,
  });
}

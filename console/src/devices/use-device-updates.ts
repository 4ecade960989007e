import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { getDeviceActivity } from '../../../src/operations/devices/device-activity.ts';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { invalidatePaths } from '../api/queries.ts';
import { applyUpdate } from '../api/stream-update.ts';
import { useStream } from '../live/use-stream.ts';

type Device = ResponseBody<typeof getDevice>['device'];
type State = Device['state'];
type DeviceUpdate =
  | { type: 'state_update'; state: State; timestamp: number }
  | { type: 'presence_update'; online: boolean }
  | { type: 'telemetry_update' }
  | { type: 'command_update'; command_id: string };

/** Refetches are batched over this time, so that many reports cause one request. */
const BATCH_MS = 500;

/** A report is a sign of life; a later one may be known already. */
export function lastSeenAfter({ last_seen: known }: Pick<Device, 'last_seen'>, reportedAt: number): string {
  const reported = new Date(reportedAt).toISOString();
  return known === null || reported > known ? reported : known;
}

/** Keeps the cached data of a device up to date while its page is open. */
export function useDeviceUpdates(id: string): void {
  const queries = useQueryClient();
  const stale = useRef(new Set<string>());
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      stale.current.clear();
    },
    [],
  );
  const path = `/v1/devices/${id}`;
  const change = (changesOf: (device: Device) => Partial<Device>): void => {
    applyUpdate<ResponseBody<typeof getDevice>>(queries, [path], (before) => ({
      ...before,
      device: { ...before.device, ...changesOf(before.device) },
    }));
  };
  /** Sets the report time of changed properties; the times of unchanged ones follow with the refetch. */
  const updateReportTimes = (state: State, at: number): void => {
    const before = queries.getQueryData<ResponseBody<typeof getDevice>>([path])?.device.state;
    // Which properties have changed is not known yet.
    if (before === undefined) return;
    const changed = Object.keys(state).filter((name) => JSON.stringify(state[name]) !== JSON.stringify(before[name]));
    const times = Object.fromEntries(changed.map((name) => [name, new Date(at).toISOString()]));
    applyUpdate<ResponseBody<typeof getDeviceActivity>>(queries, [`${path}/activity`], ({ activity }) => ({
      activity: { ...activity, properties: { ...activity.properties, ...times } },
    }));
  };
  const refetchSoon = (...paths: string[]): void => {
    if (stale.current.size === 0) {
      timer.current = setTimeout(() => {
        const paths = [...stale.current];
        stale.current.clear();
        void invalidatePaths(queries, paths);
      }, BATCH_MS);
    }
    for (const one of paths) stale.current.add(one);
  };
  useStream({
    path: '/ws/state',
    query: { events: 'state,presence,telemetry,command', device_id: id },
    onMessage(message) {
      const update = message as DeviceUpdate;
      if (update.type === 'state_update') {
        updateReportTimes(update.state, update.timestamp);
        change((device) => ({ state: update.state, last_seen: lastSeenAfter(device, update.timestamp) }));
        refetchSoon(`${path}/activity`);
      } else if (update.type === 'presence_update') {
        change(() => ({ online: update.online }));
        refetchSoon(path);
      } else if (update.type === 'telemetry_update') refetchSoon(path);
      else refetchSoon(`/v1/device/${id}/commands`, `/v1/commands/${update.command_id}`, `${path}/activity`);
    },
    onOpen: () => void invalidatePaths(queries, [path, `/v1/device/${id}`, '/v1/commands/']),
  });
}

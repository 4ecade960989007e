import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { getDeviceActivity } from '../../../src/operations/devices/device-activity.ts';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { Answer } from '../api/answer-types.ts';
import { invalidatePaths } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';

type State = Answer<typeof getDevice>['device']['state'];
type DeviceUpdate =
  | { type: 'state_update'; state: State; timestamp: number }
  | { type: 'presence_update'; online: boolean }
  | { type: 'command_update'; command_id: string };

/** What is asked for again after a moment, so that many reports are one question. */
const BATCH_MS = 500;

/** Keeps what the page shows of a device true while somebody looks at it. */
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
  const change = (changes: Partial<Answer<typeof getDevice>['device']>): void => {
    queries.setQueryData<Answer<typeof getDevice>>(
      [path],
      (before) => before && { ...before, device: { ...before.device, ...changes } },
    );
  };
  /** What changed was reported just then; of the rest the service tells in a moment. */
  const date = (state: State, at: number): void => {
    const before = queries.getQueryData<Answer<typeof getDevice>>([path])?.device.state ?? {};
    const changed = Object.keys(state).filter((name) => JSON.stringify(state[name]) !== JSON.stringify(before[name]));
    const times = Object.fromEntries(changed.map((name) => [name, new Date(at).toISOString()]));
    queries.setQueryData<Answer<typeof getDeviceActivity>>(
      [`${path}/activity`],
      (known) => known && { activity: { ...known.activity, properties: { ...known.activity.properties, ...times } } },
    );
  };
  const soon = (...paths: string[]): void => {
    if (stale.current.size === 0) {
      timer.current = setTimeout(() => {
        const asked = [...stale.current];
        stale.current.clear();
        void invalidatePaths(queries, asked);
      }, BATCH_MS);
    }
    for (const one of paths) stale.current.add(one);
  };
  useStream({
    path: '/ws/state',
    query: { events: 'state,presence,command', device_id: id },
    onMessage(message) {
      const told = message as DeviceUpdate;
      if (told.type === 'state_update') {
        date(told.state, told.timestamp);
        change({ state: told.state });
        soon(`${path}/activity`);
      } else if (told.type === 'presence_update') {
        change({ online: told.online });
        soon(path);
      } else soon(`/v1/device/${id}/commands`, `/v1/commands/${told.command_id}`, `${path}/activity`);
    },
    onOpen: () => void invalidatePaths(queries, [path, `/v1/device/${id}`, '/v1/commands/']),
  });
}

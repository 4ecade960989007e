import { useQueries } from '@tanstack/react-query';
import type { listCommands } from '../../../src/operations/commands/command-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';

type CommandList = ResponseBody<typeof listCommands>;
export type FailedCommand = CommandList['commands'][number];

const REFRESH_MS = 10_000;
/** The start of the paths of all devices. */
export const FAILURES_PATH = '/v1/device/';

const pathOf = (deviceId: string): string => `${FAILURES_PATH}${deviceId}/commands?limit=20`;
const isFailure = (status: unknown): boolean => status === 'failed' || status === 'timed_out';

/** The path that a message of the stream makes stale: of the device whose command failed; null for any other message. */
export function staleFailures(message: unknown): string | null {
  const { type, device_id: id, status } = message as { type: string; device_id?: string; status?: string };
  return type === 'command_update' && id !== undefined && isFailure(status) ? pathOf(id) : null;
}

export interface NewestFailures {
  isLoading: boolean;
  /** Undefined if it is not among the latest commands of the device, or commands cannot be read. */
  of(deviceId: string): FailedCommand | undefined;
}

/** The newest failed command of each device; one request for each, and the overview lists five devices at most. */
export function useNewestFailures(deviceIds: readonly string[], enabled: boolean): NewestFailures {
  const results = useQueries({
    queries: (enabled ? deviceIds : []).map((id) => {
      const path = pathOf(id);
      return {
        queryKey: [path],
        queryFn: () => requestJson<CommandList>('GET', path),
        refetchInterval: REFRESH_MS,
      };
    }),
  });
  return {
    isLoading: results.some(({ isLoading }) => isLoading),
    of(deviceId) {
      const data = results[deviceIds.indexOf(deviceId)]?.data;
      return data?.commands.find(({ status }) => isFailure(status));
    },
  };
}

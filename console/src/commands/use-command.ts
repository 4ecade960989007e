import { type UseQueryResult, useQueryClient } from '@tanstack/react-query';
import type { getCommand } from '../../../src/operations/commands/command-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import type { Problem } from '../api/problem.ts';
import { FALLBACK_MS, invalidatePaths, useGet } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import { isFinal } from './stages.ts';

/** A command, refetched on each of its updates. If the device is known, the stream is filtered by it. */
export function useCommand(
  id: string,
  deviceId: string | null,
): UseQueryResult<ResponseBody<typeof getCommand>, Problem> {
  const path = `/v1/commands/${id}`;
  const queries = useQueryClient();
  const known = queries.getQueryData<ResponseBody<typeof getCommand>>([path]);
  const isOver = known !== undefined && isFinal(known.command);
  const found = useGet<ResponseBody<typeof getCommand>>(path, { refetchIntervalMs: !isOver && FALLBACK_MS });
  const device = deviceId ?? found.data?.command.device_id;
  const refresh = () => void invalidatePaths(queries, [path]);
  useStream({
    path: '/ws/state',
    query: { events: 'command', ...(device !== undefined && { device_id: device }) },
    onMessage: (update) => (update as { command_id: string }).command_id === id && refresh(),
    onOpen: refresh,
    enabled: device !== undefined && !isOver,
  });
  return found;
}

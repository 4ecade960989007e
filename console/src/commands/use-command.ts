import { type UseQueryResult, useQueryClient } from '@tanstack/react-query';
import type { getCommand } from '../../../src/operations/commands/command-view.ts';
import type { Answer } from '../api/answer-types.ts';
import type { Problem } from '../api/problem.ts';
import { invalidatePaths, useGet } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import { isFinal } from './stages.ts';

/** More often than a stream tells, should it be away. */
const EVERY_MS = 10_000;

/** A command, told anew with each thing that happens to it. Its device, where it is known, keeps the rest away. */
export function useCommand(id: string, deviceId: string | null): UseQueryResult<Answer<typeof getCommand>, Problem> {
  const path = `/v1/commands/${id}`;
  const queries = useQueryClient();
  const found = useGet<Answer<typeof getCommand>>(path, { refetchIntervalMs: EVERY_MS });
  const over = found.data !== undefined && isFinal(found.data.command);
  const device = deviceId ?? found.data?.command.device_id;
  const anew = () => void invalidatePaths(queries, [path]);
  useStream({
    path: '/ws/state',
    query: { events: 'command', ...(device !== undefined && { device_id: device }) },
    onMessage: (told) => (told as { command_id: string }).command_id === id && anew(),
    onOpen: anew,
    enabled: device !== undefined && !over,
  });
  return found;
}

import { useEffect, useRef } from 'react';
import type { CommandStatus, VerificationStatus } from '../../../../src/domain/command.ts';
import type { getCommand } from '../../../../src/operations/commands/command-view.ts';
import type { ResponseBody } from '../../api/answer-types.ts';
import { requestJson } from '../../api/client.ts';
import { isFinal } from '../../commands/stages.ts';
import { useStream } from '../../live/use-stream.ts';
import { type CommandProgressRecord, outcomeOfCommand } from './bulk-jobs.ts';
import { type BulkOutcome, whenAllowed } from './bulk-run.ts';

interface CommandUpdate {
  command_id: string;
  status: CommandStatus;
  verification: VerificationStatus;
}

interface CommandOutcomes {
  /** Reports the outcome of a command from now on. */
  follow(commandId: string, deviceId: string): void;
}

/**
 * Reports the outcomes of commands as they change. An update may arrive before the answer that has the command's ID, and the
 * stream may open after the command was sent.
 */
export function useCommandOutcomes(
  enabled: boolean,
  report: (deviceId: string, outcome: BulkOutcome) => void,
): CommandOutcomes {
  const devices = useRef(new Map<string, string>());
  const latest = useRef(new Map<string, CommandProgressRecord>());
  const isClosed = useRef(false);
  useEffect(() => {
    isClosed.current = false;
    return () => {
      isClosed.current = true;
    };
  }, []);
  const update = (commandId: string, command: CommandProgressRecord): void => {
    latest.current.set(commandId, command);
    const device = devices.current.get(commandId);
    if (device !== undefined) report(device, outcomeOfCommand(commandId, command));
  };
  /** Updates may have been missed while the stream was closed. */
  const refetch = async (): Promise<void> => {
    for (const id of devices.current.keys()) {
      const known = latest.current.get(id);
      if (isClosed.current) return;
      if (known !== undefined && isFinal(known)) continue;
      const get = () => requestJson<ResponseBody<typeof getCommand>>('GET', `/v1/commands/${id}`);
      const found = await whenAllowed(get, () => isClosed.current).catch(() => null);
      if (found !== null) update(id, found.command);
    }
  };
  useStream({
    path: '/ws/state',
    query: { events: 'command' },
    enabled,
    onMessage(message) {
      const { command_id, status, verification } = message as CommandUpdate;
      update(command_id, { status, verification: { status: verification, checked_at: null } });
    },
    onOpen: () => void refetch(),
  });
  return {
    follow(commandId, deviceId) {
      devices.current.set(commandId, deviceId);
      const known = latest.current.get(commandId);
      if (known !== undefined) report(deviceId, outcomeOfCommand(commandId, known));
    },
  };
}

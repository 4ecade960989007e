import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { invalidatePaths } from '../../api/queries.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { counted } from '../../ui/text-format.ts';
import { VALUES_KEY } from '../device-values.ts';
import type { ListedDevice } from '../use-all-devices.ts';
import { CommandDevicesForm, type CommandForm, MoveDevicesForm, RevokeDevicesForm } from './bulk-forms.tsx';
import { type BulkJob, commandJob } from './bulk-jobs.ts';
import { BulkProgress } from './bulk-progress.tsx';
import type { BulkOutcome } from './bulk-run.ts';
import { useCommandOutcomes } from './use-command-outcomes.ts';

export type BulkKind = 'command' | 'move' | 'revoke';

const titles: Readonly<Record<BulkKind, (count: string) => string>> = {
  command: (count) => `Send a command to ${count}`,
  move: (count) => `Move ${count}`,
  revoke: (count) => `Revoke ${count}?`,
};

const STALE = [
  VALUES_KEY,
  '/v1/devices',
  '/v1/device/',
  '/v1/homes',
  '/v1/overview',
  '/v1/confirmations',
  '/v1/change-requests',
];

interface BulkDialogProps {
  kind: BulkKind;
  devices: readonly ListedDevice[];
  /** Selects devices in the list. */
  onSelect(devices: readonly ListedDevice[]): void;
  onClose(): void;
}

/** Dialog that changes or commands many devices, with the outcome for each. */
export function BulkDialog({ kind, devices, onSelect, onClose: close }: BulkDialogProps) {
  const queries = useQueryClient();
  const [phase, setPhase] = useState<'form' | 'running' | 'done'>('form');
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, BulkOutcome>>(new Map());
  const isStopped = useRef(false);
  // A link in the outcomes, or the browser's back button, leaves the page: no further request is sent.
  useEffect(() => {
    isStopped.current = false;
    return () => {
      isStopped.current = true;
    };
  }, []);
  const commands = useCommandOutcomes(kind === 'command', (id, outcome) => report(id, outcome));
  const report = (id: string, outcome: BulkOutcome): void => setOutcomes((before) => new Map(before).set(id, outcome));
  const run = async (job: BulkJob): Promise<void> => {
    setPhase('running');
    await job(
      devices.map(({ id }) => id),
      { isStopped: () => isStopped.current, report },
    );
    setPhase('done');
    await invalidatePaths(queries, STALE);
  };
  const stop = (): void => {
    isStopped.current = true;
  };
  const send: CommandForm['onSubmit'] = (action) => void run(commandJob(action, commands.follow));
  return (
    <Dialog title={titles[kind](counted(devices.length, 'device'))} onClose={phase === 'running' ? stop : close}>
      {phase !== 'form' ? (
        <BulkProgress
          devices={devices}
          outcomes={outcomes}
          isRunning={phase === 'running'}
          onStop={stop}
          onClose={close}
          onSelectFailed={(failed) => {
            onSelect(failed);
            close();
          }}
        />
      ) : kind === 'command' ? (
        <CommandDevicesForm devices={devices} onCancel={close} onSubmit={send} />
      ) : kind === 'move' ? (
        <MoveDevicesForm onCancel={close} onSubmit={(job) => void run(job)} />
      ) : (
        <RevokeDevicesForm onCancel={close} onSubmit={(job) => void run(job)} />
      )}
    </Dialog>
  );
}

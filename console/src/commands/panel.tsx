import { lazy, Suspense, useId, useState } from 'react';
import { Link } from 'wouter';
import type { JsonObject } from '../../../src/domain/values.ts';
import { useGet } from '../api/queries.ts';
import type { DeviceRecord } from '../devices/device-name.tsx';
import { type ManifestRecord, manifestPath, SafetyPill } from '../devices/manifest.tsx';
import { useSession } from '../session.tsx';
import { ChangeError, LoadError, Loading, Note } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { ActionOptions } from './action-options.tsx';
import { CommandProgress } from './command-progress.tsx';
import { ConfirmDryRun } from './confirm-dry-run.tsx';
import { commandHref } from './status.tsx';
import { useCommand } from './use-command.ts';
import { useSendCommand } from './use-send-command.ts';
import './panel.css';

// The form library is loaded on demand.
const ParamForm = lazy(async () => ({ default: (await import('./param-form.tsx')).ParamForm }));

/** Form to send a command to a device, with the progress of the last one. */
export function CommandPanel({ device }: { device: DeviceRecord }) {
  const { may } = useSession();
  const { data } = useGet<ManifestRecord>(manifestPath(device.id));
  const [action, setAction] = useState<string | null>(null);
  const selectId = useId();
  const sender = useSendCommand(device.id);
  // Restricted actions are internal to the protocol.
  const offered = data?.capabilities.filter(({ safetyClass }) => safetyClass !== 'RESTRICTED') ?? [];
  const chosen = offered.find((one) => one.action === action) ?? offered[0];
  if (chosen === undefined || !may('user')) return null;
  return (
    <section className="card command-panel" aria-labelledby="command">
      <header>
        <h2 id="command">Send a command</h2>
        <SafetyPill of={chosen.safetyClass} />
      </header>
      {!device.online && (
        <Note tone="warn">The device is offline. A command waits for up to a minute and then expires.</Note>
      )}
      <label htmlFor={selectId}>Action</label>
      <select id={selectId} value={chosen.action} onChange={({ target }) => setAction(target.value)}>
        <ActionOptions of={offered} />
      </select>
      <p className="quiet small">{chosen.description}.</p>
      <Suspense fallback={<Loading what="Loading form" />}>
        <ParamForm
          key={chosen.action}
          capability={chosen}
          device={device}
          busy={sender.busy}
          send={(params: JsonObject, preview: boolean) => sender.send(chosen.action, params, preview)}
        />
      </Suspense>
      <ChangeError error={sender.error} />
      {sender.dryRun !== null && (
        <ConfirmDryRun
          device={device}
          dryRun={sender.dryRun}
          onClose={sender.dismissDryRun}
          onConfirmed={sender.track}
        />
      )}
      {sender.trackedCommandId !== null && (
        <TrackedCommand key={sender.trackedCommandId} id={sender.trackedCommandId} device={device} />
      )}
    </section>
  );
}

function TrackedCommand({ id, device }: { id: string; device: DeviceRecord }) {
  const { data, error, refetch } = useCommand(id, device.id);
  if (data === undefined) {
    return error === null ? <Loading what="Loading command" /> : <LoadError problem={error} retry={refetch} />;
  }
  return (
    <div className="followed">
      <h3>
        <Link href={commandHref(id)}>{sentenceCase(data.command.action)}</Link>
      </h3>
      <CommandProgress command={data.command} />
    </div>
  );
}

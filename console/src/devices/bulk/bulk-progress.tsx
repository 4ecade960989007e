import { Link } from 'wouter';
import { Pill } from '../../ui/feedback.tsx';
import { counted } from '../../ui/text-format.ts';
import { deviceNameOf } from '../device-name.tsx';
import type { ListedDevice } from '../use-all-devices.ts';
import type { BulkOutcome } from './bulk-run.ts';

interface BulkProgressProps {
  devices: readonly ListedDevice[];
  outcomes: ReadonlyMap<string, BulkOutcome>;
  /** Requests are still sent. */
  isRunning: boolean;
  onStop(): void;
  onClose(): void;
  onSelectFailed(devices: readonly ListedDevice[]): void;
}

/** The progress of a change of many devices, and the outcome for each. */
export function BulkProgress({ devices, outcomes, isRunning, onStop, onClose, onSelectFailed }: BulkProgressProps) {
  const done = [...outcomes.values()].filter(({ isFinal }) => isFinal).length;
  const failed = devices.filter(({ id }) => outcomes.get(id)?.tone === 'bad');
  const summary = `${done.toLocaleString()} of ${counted(devices.length, 'device')} done`;
  return (
    <>
      <p role="status">
        {summary}
        {failed.length > 0 && `, ${failed.length.toLocaleString()} failed`}
      </p>
      <progress className="bulk-progress" aria-label="Progress" max={devices.length} value={done} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be reachable by keyboard */}
      <ul className="bulk-outcomes" aria-label="Outcomes" tabIndex={0}>
        {devices.map((device) => {
          const outcome = outcomes.get(device.id);
          return (
            <li key={device.id}>
              <span>{deviceNameOf(device)}</span>
              {outcome === undefined ? (
                <Pill tone="quiet">waiting</Pill>
              ) : (
                <Pill tone={outcome.tone}>
                  {outcome.href === undefined ? outcome.text : <Link href={outcome.href}>{outcome.text}</Link>}
                </Pill>
              )}
            </li>
          );
        })}
      </ul>
      <div className="actions">
        {isRunning ? (
          <button type="button" className="button" onClick={onStop}>
            Stop
          </button>
        ) : (
          <>
            {failed.length > 0 && (
              <button type="button" className="button" onClick={() => onSelectFailed(failed)}>
                Select failed devices
              </button>
            )}
            <button type="button" className="button primary" onClick={onClose}>
              Close
            </button>
          </>
        )}
      </div>
    </>
  );
}

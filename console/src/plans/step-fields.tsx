import { useId } from 'react';
import { ActionFields } from '../commands/action-fields.tsx';
import type { FormChecks } from '../commands/param-fields.tsx';
import { deviceNameOf } from '../devices/device-name.tsx';
import type { ListedDevice } from '../devices/use-all-devices.ts';
import type { DraftStep } from './plan-draft.ts';
import '../administration/administration.css';

interface StepFieldsProps {
  step: DraftStep;
  index: number;
  /** The steps before it. */
  earlier: readonly DraftStep[];
  devices: readonly ListedDevice[];
  checks: FormChecks;
  onChange(step: DraftStep): void;
  /** Absent for the only step. */
  onRemove: (() => void) | undefined;
}

/** Fields of one step of a plan. */
export function StepFields({ step, index, earlier, devices, checks, onChange, onRemove }: StepFieldsProps) {
  const [titleId, deviceId] = [useId(), useId()];
  const device = devices.find(({ id }) => id === step.deviceId);
  const toggle = (key: number): void => {
    const after = step.after.includes(key) ? step.after.filter((one) => one !== key) : [...step.after, key];
    onChange({ ...step, after });
  };
  return (
    <section className="card command-panel plan-step" aria-labelledby={titleId}>
      <header>
        <h2 id={titleId}>Step {index + 1}</h2>
        {onRemove !== undefined && (
          <button type="button" className="button" onClick={onRemove}>
            Remove<span className="unseen"> step {index + 1}</span>
          </button>
        )}
      </header>
      <label htmlFor={deviceId}>Device</label>
      <select
        id={deviceId}
        required
        value={step.deviceId}
        onChange={({ target }) => onChange({ ...step, deviceId: target.value, action: null, undo: null })}
      >
        <option value="" disabled>
          Choose a device
        </option>
        {devices.map((one) => (
          <option key={one.id} value={one.id}>
            {deviceNameOf(one)}
          </option>
        ))}
      </select>
      {device !== undefined && (
        <>
          <ActionFields
            label="Action"
            device={device}
            chosen={step.action}
            checks={checks}
            onChange={(action) => onChange({ ...step, action })}
          />
          <ActionFields
            label="To roll it back, if a later step fails"
            none="Nothing"
            device={device}
            chosen={step.undo}
            checks={checks}
            onChange={(undo) => onChange({ ...step, undo })}
          />
        </>
      )}
      {earlier.length > 0 && (
        <fieldset className="checks">
          <legend>Starts after</legend>
          {earlier.map(({ key }, position) => (
            <label key={key}>
              <input type="checkbox" checked={step.after.includes(key)} onChange={() => toggle(key)} /> Step{' '}
              {position + 1}
            </label>
          ))}
        </fieldset>
      )}
    </section>
  );
}

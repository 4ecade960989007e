import { type FormEvent, type ReactNode, useId, useState } from 'react';
import { ActionFields, type ChosenAction } from '../../commands/action-fields.tsx';
import type { FormChecks } from '../../commands/param-fields.tsx';
import { textIn } from '../../ui/form-dialog.tsx';
import { deviceNameOf } from '../device-name.tsx';
import { PlaceFields } from '../move-device.tsx';
import type { ListedDevice } from '../use-all-devices.ts';
import { type BulkJob, moveJob, revokeJob } from './bulk-jobs.ts';

interface FormProps {
  onCancel(): void;
  onSubmit(job: BulkJob): void;
}

interface BulkFormProps {
  submitLabel: string;
  tone?: 'primary' | 'danger';
  children: ReactNode;
  onCancel(): void;
  onSubmit(given: FormData): void;
}

function BulkForm({ submitLabel, tone = 'primary', children, onCancel, onSubmit }: BulkFormProps) {
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    onSubmit(new FormData(event.currentTarget));
  };
  return (
    <form className="command-panel" onSubmit={send}>
      {children}
      <div className="actions">
        <button type="button" className="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="submit" className={`button ${tone}`}>
          {submitLabel}
        </button>
      </div>
    </form>
  );
}

export function MoveDevicesForm({ onCancel, onSubmit }: FormProps) {
  const [home, setHome] = useState('');
  return (
    <BulkForm
      submitLabel="Move devices"
      onCancel={onCancel}
      onSubmit={(given) => {
        const room = textIn(given, 'room');
        onSubmit(moveJob(home, room === '' ? null : room));
      }}
    >
      <PlaceFields home={home} onHome={setHome} room={null} />
    </BulkForm>
  );
}

export function RevokeDevicesForm({ onCancel, onSubmit }: FormProps) {
  const reasonId = useId();
  return (
    <BulkForm
      submitLabel="Revoke devices"
      tone="danger"
      onCancel={onCancel}
      onSubmit={(given) => onSubmit(revokeJob(textIn(given, 'reason')))}
    >
      <p>The devices are disconnected, their keys become invalid and their open commands are cancelled.</p>
      <label htmlFor={reasonId}>Reason (optional)</label>
      <input id={reasonId} name="reason" maxLength={500} autoComplete="off" />
    </BulkForm>
  );
}

export interface CommandForm {
  devices: readonly ListedDevice[];
  onCancel(): void;
  onSubmit(action: ChosenAction): void;
}

export function CommandDevicesForm({ devices, onCancel, onSubmit }: CommandForm) {
  const [modelId, setModelId] = useState(devices[0]?.id ?? '');
  const [chosen, setChosen] = useState<ChosenAction | null>(null);
  const [checks] = useState<FormChecks>(() => new Set());
  const typeId = useId();
  // One of each type, because devices of a type usually have the same actions.
  const models = [...new Map([...devices].reverse().map((device) => [device.device_type, device])).values()].reverse();
  const model = devices.find(({ id }) => id === modelId);
  return (
    <BulkForm
      submitLabel="Send command"
      onCancel={onCancel}
      onSubmit={() => {
        const isValid = [...checks].map((check) => check()).every(Boolean);
        if (isValid && chosen !== null) onSubmit(chosen);
      }}
    >
      {models.length > 1 && (
        <>
          <label htmlFor={typeId}>Actions of</label>
          <select
            id={typeId}
            value={modelId}
            onChange={({ target }) => {
              setModelId(target.value);
              setChosen(null);
            }}
          >
            {models.map(({ id, device_type }) => (
              <option key={id} value={id}>
                {device_type}
              </option>
            ))}
          </select>
          <p className="quiet small">Devices without the action refuse it.</p>
        </>
      )}
      {model !== undefined && (
        <ActionFields
          key={model.id}
          label="Action"
          device={model}
          chosen={chosen}
          checks={checks}
          onChange={setChosen}
        />
      )}
      {model !== undefined && models.length === 1 && (
        <p className="quiet small">The actions are those of {deviceNameOf(model)}.</p>
      )}
    </BulkForm>
  );
}

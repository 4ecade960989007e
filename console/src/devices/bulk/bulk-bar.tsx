import { useState } from 'react';
import { useSession } from '../../session.tsx';
import { counted } from '../../ui/text-format.ts';
import type { ListedDevice } from '../use-all-devices.ts';
import { BulkDialog, type BulkKind } from './bulk-dialog.tsx';
import './bulk.css';

/** The selected devices by ID; also those that the filters hide now. */
export type DeviceSelection = ReadonlyMap<string, ListedDevice>;

interface BulkBarProps {
  chosen: DeviceSelection;
  choose(devices: readonly ListedDevice[]): void;
  /** The devices in the list. */
  shown: readonly ListedDevice[];
}

/** The number of selected devices and the actions for them. */
export function BulkBar({ chosen, choose, shown }: BulkBarProps) {
  const { may } = useSession();
  // The devices at the time when the dialog was opened.
  const [open, setOpen] = useState<{ kind: BulkKind; devices: readonly ListedDevice[] } | null>(null);
  const hidden = [...chosen.keys()].filter((id) => !shown.some((device) => device.id === id)).length;
  const button = (kind: BulkKind, label: string, tone = '') => (
    <button type="button" className={`button ${tone}`} onClick={() => setOpen({ kind, devices: [...chosen.values()] })}>
      {label} …
    </button>
  );
  if (chosen.size + shown.length === 0 && open === null) return null;
  return (
    <div className="bulk-bar">
      {chosen.size === 0 ? (
        <button type="button" className="button" disabled={shown.length === 0} onClick={() => choose(shown)}>
          Select all shown
        </button>
      ) : (
        <>
          <strong role="status">
            {counted(chosen.size, 'device')} selected{hidden > 0 && `, ${hidden.toLocaleString()} not shown`}
          </strong>
          {button('command', 'Send command')}
          {may('admin') && button('move', 'Move')}
          {may('admin') && button('revoke', 'Revoke', 'danger')}
          <button type="button" className="button" onClick={() => choose([])}>
            Clear selection
          </button>
        </>
      )}
      {open !== null && (
        <BulkDialog kind={open.kind} devices={open.devices} onSelect={choose} onClose={() => setOpen(null)} />
      )}
    </div>
  );
}

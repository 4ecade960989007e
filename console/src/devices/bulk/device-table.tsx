import { type ReactNode, useMemo, useState } from 'react';
import { useSession } from '../../session.tsx';
import { type Column, VirtualTable, type VirtualTableProps } from '../../ui/virtual-table.tsx';
import { deviceNameOf } from '../device-name.tsx';
import type { ListedDevice } from '../use-all-devices.ts';
import { BulkBar, type DeviceSelection } from './bulk-bar.tsx';

/** A table of devices, in which users who can command or change devices select some of them. */
export function DeviceTable({ empty, ...props }: VirtualTableProps<ListedDevice> & { empty: ReactNode }) {
  const { may } = useSession();
  const [chosen, setChosen] = useState<DeviceSelection>(new Map());
  const { columns, rows } = props;
  const withSelection = useMemo(() => [selectColumn(chosen, setChosen), ...columns], [chosen, columns]);
  if (!may('user')) return rows.length === 0 ? empty : <VirtualTable {...props} />;
  return (
    <>
      <BulkBar
        chosen={chosen}
        choose={(devices) => setChosen(new Map(devices.map((device) => [device.id, device])))}
        shown={rows}
      />
      {rows.length === 0 ? empty : <VirtualTable {...props} columns={withSelection} />}
    </>
  );
}

const selectColumn = (chosen: DeviceSelection, setChosen: (chosen: DeviceSelection) => void): Column<ListedDevice> => ({
  title: 'Select',
  width: '3rem',
  isUnsorted: true,
  cell: (device) => (
    <input
      type="checkbox"
      aria-label={`Select ${deviceNameOf(device)}`}
      checked={chosen.has(device.id)}
      onChange={() => {
        const after = new Map(chosen);
        if (!after.delete(device.id)) after.set(device.id, device);
        setChosen(after);
      }}
    />
  ),
});

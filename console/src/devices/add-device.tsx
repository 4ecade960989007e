import { type FormEvent, useId, useState } from 'react';
import { categoryNames } from '../../../src/domain/capability-registry.ts';
import type { createHome, listHomes } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, LoadError, Loading } from '../ui/feedback.tsx';
import type { NewDeviceIdentity } from './device-programs.ts';
import { VALUES_KEY } from './device-values.ts';
import { NewDevice } from './new-device.tsx';
import { RoomField } from './room-field.tsx';

/** The value of the home field for a home that is created with the device. */
const NEW_HOME = 'new';

const HOMES = '/v1/homes';

/** Nothing for users who are not admins. The page has the dialog, because an empty state is removed with the first device. */
export function AddDeviceButton({ onClick: open }: { onClick(): void }) {
  const { may } = useSession();
  return (
    may('admin') && (
      <button type="button" className="button primary" onClick={open}>
        Add device …
      </button>
    )
  );
}

/** Registers a device, and then shows its secret. */
export function AddDeviceDialog({ onClose: close }: { onClose(): void }) {
  const [registered, setRegistered] = useState<NewDeviceIdentity | null>(null);
  const homes = useGet<ResponseBody<typeof listHomes>>(`${HOMES}?limit=200`);
  if (registered !== null) return <NewDevice device={registered} onClose={close} />;
  return (
    <Dialog title="Add a device" onClose={close}>
      {homes.data !== undefined ? (
        <DeviceForm homes={homes.data.homes} onRegistered={setRegistered} onCancel={close} />
      ) : homes.error === null ? (
        <Loading what="Loading homes" />
      ) : (
        <LoadError problem={homes.error} retry={homes.refetch} />
      )}
    </Dialog>
  );
}

interface DeviceFormProps {
  homes: ResponseBody<typeof listHomes>['homes'];
  onRegistered(device: NewDeviceIdentity): void;
  onCancel(): void;
}

function DeviceForm({ homes, onRegistered, onCancel }: DeviceFormProps) {
  const createdHome = useChange<ResponseBody<typeof createHome>>([HOMES]);
  const registered = useChange<NewDeviceIdentity>([VALUES_KEY, '/v1/devices', '/v1/overview']);
  const [home, setHome] = useState(homes[0]?.id ?? NEW_HOME);
  const [nameId, homeId, homeNameId, typeId, typesId] = [useId(), useId(), useId(), useId(), useId()];
  const send = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const text = (field: string): string => `${given.get(field) ?? ''}`.trim();
    createdHome.reset();
    registered.reset();
    try {
      let home_id = home;
      if (home === NEW_HOME) {
        home_id = (
          await createdHome.mutateAsync({ method: 'POST', path: HOMES, body: { home_name: text('home_name') } })
        ).id;
        // If the registration fails, the next attempt must not create the home again.
        setHome(home_id);
      }
      const body = {
        ...{ device_type: text('device_type'), name: text('name'), home_id },
        ...(text('room') !== '' && { room_id: text('room') }),
      };
      onRegistered(await registered.mutateAsync({ method: 'POST', path: '/v1/device/register', body }));
    } catch {
      // The error of the change is shown below.
    }
  };
  const isKnown = home === NEW_HOME || homes.some(({ id }) => id === home);
  return (
    <form onSubmit={(event) => void send(event)}>
      <label htmlFor={nameId}>Name</label>
      <input id={nameId} name="name" required maxLength={100} autoComplete="off" placeholder="e.g. Desk lamp" />
      <label htmlFor={typeId}>Device type</label>
      <input
        id={typeId}
        name="device_type"
        required
        maxLength={64}
        autoComplete="off"
        list={typesId}
        placeholder="e.g. light, or a type of your own"
      />
      <datalist id={typesId}>
        {categoryNames.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <label htmlFor={homeId}>Home</label>
      <select id={homeId} value={home} onChange={({ target }) => setHome(target.value)}>
        {homes.map(({ id, home_name }) => (
          <option key={id} value={id}>
            {home_name}
          </option>
        ))}
        {!isKnown && <option value={home}>The new home</option>}
        <option value={NEW_HOME}>New home …</option>
      </select>
      {home === NEW_HOME ? (
        <>
          <label htmlFor={homeNameId}>Name of the new home</label>
          <input id={homeNameId} name="home_name" required maxLength={100} autoComplete="off" />
        </>
      ) : (
        <RoomField key={home} home={home} />
      )}
      <ChangeError error={createdHome.error ?? registered.error} />
      <div className="actions">
        <button type="button" className="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="submit" className="button primary" disabled={createdHome.isPending || registered.isPending}>
          Add device
        </button>
      </div>
    </form>
  );
}

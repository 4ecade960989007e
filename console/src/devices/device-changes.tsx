import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { invalidatePaths, useChange } from '../api/queries.ts';
import type { PendingChange } from '../changes/change-request.ts';
import { ConfirmChange } from '../changes/confirm-change.tsx';
import { DeviceSecret, type NewSecret, newSecretIn } from '../changes/device-secret.tsx';
import { FormDialog } from '../ui/form-dialog.tsx';
import { NameField } from '../ui/name-field.tsx';
import { type DeviceRecord, deviceNameOf } from './device-name.tsx';
import { type KeyChange, KeyChangeDialog, keyChanges } from './key-change-dialog.tsx';
import { MoveDevice } from './move-device.tsx';
import '../administration/administration.css';

type Shown = 'rename' | 'move' | 'delete' | KeyChange;

/** Lists that show devices. */
const LISTS = ['/v1/devices?', '/v1/homes', '/v1/groups', '/v1/overview'];

/** Changes of a device by admins. The dialogs are here, because the buttons depend on the device's state. */
export function DeviceChanges({ device }: { device: DeviceRecord }) {
  const { id, revoked } = device;
  const stalePaths = [`/v1/devices/${id}`, `/v1/device/${id}`, '/v1/change-requests', '/v1/confirmations', ...LISTS];
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [shown, setShown] = useState<Shown | null>(null);
  const [pending, setPending] = useState<{ of: KeyChange; change: PendingChange } | null>(null);
  const [secret, setSecret] = useState<NewSecret | null>(null);
  const keyChange = useChange<Record<string, unknown>>(stalePaths);
  const close = (): void => setShown(null);
  const requestKeyChange = (of: KeyChange, reason: string): void => {
    const body = reason === '' ? {} : { reason };
    keyChange.mutate(
      { method: 'POST', path: `/v1/device/${id}/${keyChanges[of].path}`, body },
      {
        onSuccess(answer) {
          close();
          setSecret(newSecretIn(answer));
        },
        onError(problem) {
          if (problem.code !== 'DRY_RUN_REQUIRED') return;
          close();
          setPending({ of, change: problem.body as PendingChange });
          void invalidatePaths(queries, ['/v1/change-requests']);
        },
      },
    );
  };
  const button = (name: Shown, label: string, tone = '') => (
    <button
      type="button"
      className={`button ${tone}`}
      onClick={() => {
        // A reset would drop the answer that is awaited, with the secret.
        if (!keyChange.isPending) keyChange.reset();
        setShown(name);
      }}
    >
      {label} …
    </button>
  );
  return (
    <section className="card" aria-labelledby="manage">
      <header>
        <h2 id="manage">Manage</h2>
      </header>
      <div className="row-actions">
        {!revoked && button('rename', 'Rename')}
        {!revoked && button('move', 'Move')}
        {!revoked && button('rotate', 'Rotate secret')}
        {revoked ? button('reinstate', 'Reinstate') : button('revoke', 'Revoke', 'danger')}
        {revoked && button('delete', 'Delete', 'danger')}
      </div>
      {!revoked && <p className="quiet small">To delete the device, revoke it first.</p>}
      {shown === 'rename' && (
        <FormDialog
          title={`Rename ${deviceNameOf(device)}`}
          submitLabel="Rename"
          stalePaths={stalePaths}
          onClose={close}
          changeOf={(given) => ({ method: 'PATCH', path: `/v1/devices/${id}`, body: { name: given.get('name') } })}
        >
          <NameField value={device.name ?? ''} />
        </FormDialog>
      )}
      {shown === 'move' && <MoveDevice device={device} stalePaths={stalePaths} onClose={close} />}
      {shown === 'delete' && (
        <FormDialog
          title={`Delete ${deviceNameOf(device)}?`}
          submitLabel="Delete device"
          tone="danger"
          // Not the device itself, which no longer exists.
          stalePaths={[]}
          onClose={close}
          changeOf={() => ({ method: 'DELETE', path: `/v1/devices/${id}` })}
          onSuccess={() => {
            navigate('/devices');
            void invalidatePaths(queries, LISTS);
          }}
        >
          <p>It is removed from all lists and cannot be reinstated. Its commands and its journal are kept.</p>
        </FormDialog>
      )}
      {(shown === 'rotate' || shown === 'revoke' || shown === 'reinstate') && (
        <KeyChangeDialog
          of={shown}
          device={device}
          request={keyChange}
          onRequest={(reason) => requestKeyChange(shown, reason)}
          onClose={close}
        />
      )}
      {pending !== null && (
        <ConfirmChange
          title={keyChanges[pending.of].titleOf(deviceNameOf(device))}
          pending={pending.change}
          stalePaths={stalePaths}
          onClose={() => setPending(null)}
          onApplied={({ result }) => {
            setPending(null);
            setSecret(newSecretIn(result));
          }}
        />
      )}
      {secret !== null && (
        <DeviceSecret
          of={secret}
          close={() => {
            setSecret(null);
            keyChange.reset();
          }}
        />
      )}
    </section>
  );
}

import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import type { getGroup } from '../../../src/operations/homes/groups.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { invalidatePaths, useGet } from '../api/queries.ts';
import { DeviceChecks } from '../devices/device-checks.tsx';
import { deviceHref, deviceNameOf } from '../devices/device-name.tsx';
import { type ListedDevice, useAllDevices } from '../devices/use-all-devices.ts';
import { useSession } from '../session.tsx';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { FormButton } from '../ui/form-button.tsx';
import { Table } from '../ui/table.tsx';
import { abbreviateId } from '../ui/text-format.ts';
import { GroupFields, groupInput } from './group-fields.tsx';
import '../administration/administration.css';

type Group = ResponseBody<typeof getGroup>['group'];

/** Page of one group, with its devices. */
export function GroupPage({ params: { slug = '' } }: { params: Readonly<Record<string, string>> }) {
  const { may } = useSession();
  const { data, error, refetch } = useGet<ResponseBody<typeof getGroup>>(`/v1/groups/${slug}`);
  if (data === undefined || error?.status === 404) {
    return error === null ? (
      <Loading what="Loading group" />
    ) : (
      <LoadError isWholePage problem={error} retry={refetch} />
    );
  }
  const { group } = data;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{group.name}</h1>
          <p className="quiet">
            {group.description !== null && `${group.description} · `}
            <code>{group.slug}</code>
          </p>
        </div>
        {may('admin') && <GroupChanges group={group} />}
      </header>
      <Devices group={group} />
    </>
  );
}

const pathOf = ({ slug }: Pick<Group, 'slug'>): string => `/v1/groups/${slug}`;

function GroupChanges({ group }: { group: Group }) {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const { name, description } = group;
  return (
    <div className="row-actions">
      <FormButton
        label="Edit"
        title={`Edit ${name}`}
        submitLabel="Save"
        stalePaths={['/v1/groups']}
        changeOf={(given) => {
          const { name, description } = groupInput(given);
          const body = { name, description: description === '' ? null : description };
          return { method: 'PATCH', path: pathOf(group), body };
        }}
      >
        <GroupFields name={name} description={description} />
        <p className="quiet small">
          Its name in the API, <code>{group.slug}</code>, stays.
        </p>
      </FormButton>
      <ConfirmButton
        label="Delete"
        title={`Delete ${name}?`}
        confirmLabel="Delete group"
        change={{ method: 'DELETE', path: pathOf(group) }}
        // Not the group itself, which no longer exists.
        stalePaths={[]}
        onSuccess={() => {
          navigate('/groups');
          void invalidatePaths(queries, ['/v1/groups?']);
        }}
      >
        <p>Its devices are kept.</p>
      </ConfirmButton>
    </div>
  );
}

function Devices({ group }: { group: Group }) {
  const { rows } = useAllDevices();
  const { may } = useSession();
  const known = new Map(rows.map((device) => [device.id, device]));
  const { device_ids: ids } = group;
  return (
    <section className="card" aria-labelledby="devices">
      <header>
        <h2 id="devices">Devices</h2>
        {ids.length > 0 && <AddDevices group={group} />}
      </header>
      {ids.length === 0 ? (
        <Empty icon="device" title="No devices in this group.">
          <AddDevices group={group} />
        </Empty>
      ) : (
        <Table label="Devices" columns={['Device', 'Type', ...(may('admin') ? ['Actions'] : [])]}>
          {ids.map((id) => (
            <Row key={id} id={id} device={known.get(id)} group={group} />
          ))}
        </Table>
      )}
    </section>
  );
}

function Row({ id, device, group }: { id: string; device: ListedDevice | undefined; group: Group }) {
  const { may } = useSession();
  const name = device === undefined ? `Device ${abbreviateId(id)}` : deviceNameOf(device);
  return (
    <tr>
      <th scope="row">
        <Link href={deviceHref(id)}>{name}</Link>
      </th>
      <td className="quiet">{device?.device_type}</td>
      {may('admin') && (
        <td>
          <div className="row-actions">
            <ConfirmButton
              label="Remove"
              about={name}
              title={`Remove ${name} from ${group.name}?`}
              confirmLabel="Remove device"
              change={{ method: 'DELETE', path: `${pathOf(group)}/devices/${id}` }}
              stalePaths={['/v1/groups']}
            >
              <p>Only the membership ends: the device is kept.</p>
            </ConfirmButton>
          </div>
        </td>
      )}
    </tr>
  );
}

function AddDevices({ group }: { group: Group }) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  return (
    <FormButton
      label="Add devices"
      isPrimary
      title={`Add devices to ${group.name}`}
      submitLabel="Add devices"
      isIncomplete={chosen.size === 0}
      stalePaths={['/v1/groups']}
      changeOf={() => ({ method: 'POST', path: `${pathOf(group)}/join`, body: { device_ids: [...chosen] } })}
      onSuccess={() => setChosen(new Set())}
    >
      <DeviceChecks without={group.device_ids} chosen={chosen} onChange={setChosen} />
    </FormButton>
  );
}

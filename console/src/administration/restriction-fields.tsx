import { useState } from 'react';
import type { listCategories } from '../../../src/operations/devices/manifests.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { type NamedPlace, type Restriction, usePlaceNames } from './restriction-names.ts';

const lists = ['homes', 'rooms', 'groups', 'devices', 'categories', 'actions'] as const satisfies (keyof Restriction)[];

/** The restriction that the fields of a submitted form select, or null for a key that is not restricted. */
export function restrictionIn(form: FormData): Partial<Record<keyof Restriction, string[]>> | null {
  if (form.get('restricted') !== 'yes') return null;
  const selected = lists.map((list) => [list, form.getAll(list).map(String)] as const);
  return Object.fromEntries(selected.filter(([, entries]) => entries.length > 0));
}

/** Fields of a form that restrict a new key. */
export function RestrictionFields() {
  const [isRestricted, setRestricted] = useState(false);
  return (
    <>
      <fieldset className="checks">
        <legend>Devices and actions</legend>
        <label>
          <input
            type="radio"
            name="restricted"
            value="no"
            checked={!isRestricted}
            onChange={() => setRestricted(false)}
          />{' '}
          All devices
        </label>
        <label>
          <input
            type="radio"
            name="restricted"
            value="yes"
            checked={isRestricted}
            onChange={() => setRestricted(true)}
          />{' '}
          Only what is selected
        </label>
      </fieldset>
      {isRestricted && <RestrictionLists />}
    </>
  );
}

function RestrictionLists() {
  const places = usePlaceNames();
  const { data } = useGet<ResponseBody<typeof listCategories>>('/v1/manifest/types');
  const categories = Object.keys(data?.categories ?? {}).sort();
  const actions = [...new Set(Object.values(data?.categories ?? {}).flat())].sort();
  return (
    <>
      <p className="quiet small">
        The key reaches devices that are in any of the selected places. Categories and actions restrict it further. It
        cannot use plans, goals and memories.
      </p>
      <Choices list="homes" legend="Homes" entries={places.homes} />
      <Choices list="rooms" legend="Rooms" entries={places.rooms} />
      <Choices list="groups" legend="Groups" entries={places.groups} />
      <Choices list="devices" legend="Devices" entries={places.devices} />
      <Choices list="categories" legend="Categories" entries={categories.map((name) => ({ id: name, name }))} />
      <Choices list="actions" legend="Actions" entries={actions.map((name) => ({ id: name, name }))} />
    </>
  );
}

function Choices({ list, legend, entries }: { list: keyof Restriction; legend: string; entries: NamedPlace[] }) {
  if (entries.length === 0) return null;
  return (
    <fieldset className="checks">
      <legend>{legend}</legend>
      {entries.map(({ id, name }) => (
        <label key={id}>
          <input type="checkbox" name={list} value={id} /> {name}
        </label>
      ))}
    </fieldset>
  );
}

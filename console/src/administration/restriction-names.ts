import { useQueries } from '@tanstack/react-query';
import type { listDevices } from '../../../src/operations/devices/devices.ts';
import type { listGroups } from '../../../src/operations/homes/groups.ts';
import type { listHomes, listRooms } from '../../../src/operations/homes/homes.ts';
import type { listApiKeys } from '../../../src/operations/identity/api-keys.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { useGet } from '../api/queries.ts';
import { abbreviateId } from '../ui/text-format.ts';

export type Restriction = NonNullable<ResponseBody<typeof listApiKeys>['keys'][number]['restrict_to']>;

/** Something that a key can be restricted to, with the name that it is shown by. */
export interface NamedPlace {
  id: string;
  name: string;
}

export type PlaceNames = Record<'homes' | 'rooms' | 'groups' | 'devices', NamedPlace[]>;

/** The newest homes, rooms, groups and devices of the tenant; rooms are named with their home. */
export function usePlaceNames(): PlaceNames {
  const homes = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200').data?.homes ?? [];
  const groups = useGet<ResponseBody<typeof listGroups>>('/v1/groups?limit=200').data?.groups ?? [];
  const devices = useGet<ResponseBody<typeof listDevices>>('/v1/devices?limit=200').data?.devices ?? [];
  const rooms = useQueries({
    queries: homes.map(({ id }) => {
      const path = `/v1/homes/${id}/rooms?limit=200`;
      return { queryKey: [path], queryFn: () => requestJson<ResponseBody<typeof listRooms>>('GET', path) };
    }),
  });
  const homeName = new Map(homes.map(({ id, home_name }) => [id, home_name]));
  return {
    homes: homes.map(({ id, home_name }) => ({ id, name: home_name })),
    rooms: rooms.flatMap(({ data }) =>
      (data?.rooms ?? []).map(({ id, name, home_id }) => ({ id, name: `${name} (${homeName.get(home_id) ?? ''})` })),
    ),
    groups: groups.map(({ slug, name }) => ({ id: slug, name })),
    devices: devices.map(({ id, name, device_type }) => ({ id, name: name ?? `${device_type} ${abbreviateId(id)}` })),
  };
}

/** A restriction in words: places first, joined by "or", then categories and actions. */
export function restrictionText(restriction: Restriction, names: PlaceNames): string {
  const named = (kind: keyof PlaceNames, noun: string) =>
    (restriction[kind] ?? []).map(
      (id) => `${noun} ${names[kind].find((place) => place.id === id)?.name ?? abbreviateId(id)}`,
    );
  const places = [
    ...named('homes', 'home'),
    ...named('rooms', 'room'),
    ...named('groups', 'group'),
    ...named('devices', 'device'),
  ];
  return [
    ...(places.length > 0 ? [`Only ${places.join(' or ')}`] : []),
    ...(restriction.categories ? [`only devices of the category ${restriction.categories.join(' or ')}`] : []),
    ...(restriction.actions ? [`only the actions ${restriction.actions.join(', ')}`] : []),
  ].join('; ');
}

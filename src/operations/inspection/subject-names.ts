import { isUuid } from '../../domain/uuid.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Services } from '../operation.ts';

type Store = Services['store'];
/** The names of the subjects of a kind, by what follows the kind in the subject. */
type Names = Iterable<readonly [id: string, name: string]>;

const ofActors =
  (kind: 'device' | 'command' | 'plan') =>
  (store: Store, tenantId: Uuid, ids: readonly string[]): Promise<Names> =>
    store.inspection.names(tenantId, kind, ids.filter(isUuid));

/** A page of dashboards without tiles, or of firmware releases; those that are older have no name. */
const MAX_LISTED = 200;

/** One query each, which activates no actor. */
const namesOf: Readonly<Record<string, (store: Store, tenantId: Uuid, ids: readonly string[]) => Promise<Names>>> = {
  device: ofActors('device'),
  command: ofActors('command'),
  plan: ofActors('plan'),
  home: async (store, tenantId, ids) =>
    (await store.records.findHomes(tenantId, ids.filter(isUuid))).map(({ id, name }) => [id, name]),
  room: async (store, tenantId, ids) =>
    (await store.records.findRooms(tenantId, ids.filter(isUuid))).map(({ id, name }) => [id, name]),
  group: async (store, tenantId, slugs) =>
    (await store.records.groups(tenantId, slugs.length, undefined, slugs)).items.map(({ slug, name }) => [slug, name]),
  dashboard: async (store, tenantId) =>
    (await store.dashboards.list(tenantId, null, MAX_LISTED)).items.map(({ id, name }) => [id, name]),
  ca: async (store, tenantId) => (await store.deviceCas.list(tenantId)).map(({ id, name }) => [id, name]),
  firmware: async (store, tenantId) =>
    (await store.firmware.list(tenantId, {}, MAX_LISTED)).items.map((one) => [
      one.id,
      `${one.deviceType} ${one.version}`,
    ]),
  'firmware-key': async (store, tenantId) =>
    (await store.firmwareSigning.find(tenantId)).keys.map(({ keyId, name }) => [keyId, name]),
};

/**
 * Names of audited subjects such as `device:<id>`: a device's name or type, a command's action, and the names of plans, homes,
 * rooms, groups, dashboards, device CAs, firmware releases and firmware keys that still exist. A memory has no name, and its text is
 * not for every reader of the audit. A refused request may name one of another tenant, whose name is left out.
 */
export async function subjectNames(
  { store }: Pick<Services, 'store'>,
  tenantId: Uuid,
  subjects: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const found = await Promise.all(
    Object.entries(namesOf).map(async ([kind, read]) => {
      const prefix = `${kind}:`;
      const ids = subjects.filter((subject) => subject.startsWith(prefix)).map((one) => one.slice(prefix.length));
      if (ids.length === 0) return [];
      const names = await read(store, tenantId, [...new Set(ids)]);
      return [...names].map(([id, name]) => [`${prefix}${id}`, name] as const);
    }),
  );
  return new Map(found.flat());
}

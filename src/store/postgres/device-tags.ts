import type { Uuid } from '../../domain/values.ts';
import { MAX_TAG_COUNTED, type TagRow } from '../contract/devices.ts';
import type { Page, Position } from '../contract.ts';
import { type Database, idArray } from './database.ts';
import { pageOf } from './keyset-pagination.ts';

/** Most entries that are counted to find the rarest tag of a filter. */
const MAX_COMPARED = 1_000;

/**
 * The devices `d` of the tenant `$1` with all tags of the JSON array `parameter`, with the entry `t` of one of their tags. It is
 * the rarest tag, as far as `MAX_COMPARED` entries show it, so that a rare tag makes the search short. The entries of a
 * tag are in the order of the list, so a page of a frequent tag reads as many of them as it has rows. "bool_and" keeps the
 * other tags out of a join, so that they are looked up before the devices are read.
 */
export const taggedDevices = (parameter: string): string => {
  const wanted = `jsonb_array_elements_text(${parameter}::jsonb) as wanted(tag)`;
  const entries = `select from device_tags o where o.tenant_id = $1 and o.tag = wanted.tag collate "C"`;
  return `device_tags t join devices d on d.id = t.device_id
      and t.tenant_id = $1
      and t.tag = (select wanted.tag collate "C" from ${wanted}
        order by (select count(*) from (${entries} limit ${MAX_COMPARED}) compared) limit 1)
      and (select bool_and(exists (${entries} and o.created_at = t.created_at and o.device_id = t.device_id)) from ${wanted})`;
};

/** A condition on a device `d`: the text is in its name, type or a tag, or at the start of its id. */
export const containing = (parameter: string): string => {
  const has = (text: string) => `position(lower(${parameter}::text) in lower(${text})) > 0`;
  return ` and (${has(`d.context->>'name'`)} or ${has('d.device_type')} or starts_with(d.id::text, lower(${parameter}::text))
    or exists (select from jsonb_array_elements_text(d.context->'tags') as shown(tag) where ${has('shown.tag')}))`;
};

/** Looks up the next tag behind each one, so that the time depends on the number of tags, not on that of devices. */
const allTags = `with recursive found(tag, n) as (
    (select t.tag, 1 from device_tags t where t.tenant_id = $1 and t.tag > $2 collate "C" order by t.tag limit 1)
    union all
    select (select t.tag from device_tags t where t.tenant_id = $1 and t.tag > found.tag order by t.tag limit 1), n + 1
      from found where found.tag is not null and n < $3)
  select tag, (select count(*) from (select from device_tags t
      where t.tenant_id = $1 and t.tag = found.tag limit $4) counted) as devices
    from found where tag is not null order by tag`;

const tagsAmong = `select tag, count(*) as devices
  from devices d, jsonb_array_elements_text(d.context->'tags') as shown(tag)
  where d.tenant_id = $1 and not d.deleted and d.id = any($4::uuid[]) and tag > $2 collate "C"
  group by tag order by tag collate "C" limit $3`;

/** The tags of the tenant's devices, or of those of `among`, in the order of their characters. */
export async function readTags(
  database: Database,
  tenantId: Uuid,
  limit: number,
  after?: Position,
  among?: readonly Uuid[],
): Promise<Page<TagRow>> {
  const rows = await database.read<{ tag: string; devices: number }>({
    name: among === undefined ? 'device_tags' : 'device_tags_among',
    scope: { tenantId },
    text: among === undefined ? allTags : tagsAmong,
    values: [tenantId, after?.id ?? '', limit + 1, among === undefined ? MAX_TAG_COUNTED + 1 : idArray(among)],
  });
  const tags = rows.map(({ tag, devices }) => ({ tag, devices: devices > MAX_TAG_COUNTED ? null : devices }));
  const page = pageOf(tags, limit, ({ tag }) => ({ createdAt: 0, id: tag }));
  const isWhole = after === undefined && page.next === null;
  return { ...page, count: async () => (isWhole ? page.items.length : null) };
}

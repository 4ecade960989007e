import { z } from 'zod';
import { MAX_TAGS, tagList } from '../../domain/device-tags.ts';
import { done } from '../../domain/refusals.ts';
import { MAX_TAG_COUNTED } from '../../store/contract/devices.ts';
import { cursorAfter, cursorsIn, listCount, nextCursor, paging, startOf } from '../inputs.ts';
import { reachedDeviceIds } from '../key-reach.ts';
import { operation, tenantOf } from '../operation.ts';

/** A filter of devices by tags. */
export const tagFilter = tagList
  .refine((tags) => tags.length > 0, 'must not be empty')
  .meta({ description: `Only devices with all of these tags, ${MAX_TAGS} at most`, examples: [['outdoor']] });

const tagEntry = z
  .object({
    tag: z.string(),
    devices: z
      .int()
      .nullable()
      .meta({ description: `Number of the devices that have it; null if it is over ${MAX_TAG_COUNTED}` }),
  })
  .meta({ id: 'DeviceTag' });

export const listTags = operation({
  name: 'listTags',
  summary: 'List the tags of devices with the number of their devices, in the order of their characters',
  input: z.strictObject({ ...paging }),
  output: z.object({ tags: z.array(tagEntry), count: listCount, next_cursor: nextCursor }),
  role: 'user',
  scope: 'read:devices',
  restrictedKeys: 'devices',
  changes: false,
  example: { output: { tags: [{ tag: 'outdoor', devices: 3 }], count: 1, next_cursor: null } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const listing = { route: 'tags', ids: 'text' as const };
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const ids = await reachedDeviceIds(store, caller);
    const page = await store.devices.tags(tenantOf(caller), input.limit, start.value, ids);
    return done({
      body: { tags: page.items, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

import { z } from 'zod';
import { categorySchema } from '../../domain/enum-schemas.ts';
import type { KeyRestriction } from '../../domain/key-restriction.ts';
import { requestedActionName } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { slug } from '../inputs.ts';

// The restriction of an API key in requests, answers and stored tickets (decision 55).

/** Entries of one list. */
const MAX_ENTRIES = 100;

const listOf = <Item extends z.ZodType>(item: Item, description: string) =>
  z.array(item).min(1, 'must not be empty').max(MAX_ENTRIES).optional().meta({ description });

const lists = {
  homes: listOf(uuid, 'Devices of these homes'),
  rooms: listOf(uuid, 'Devices in these rooms'),
  groups: listOf(slug, 'Devices of these groups, by slug'),
  devices: listOf(uuid, 'These devices'),
  categories: listOf(categorySchema, 'Only devices of these categories'),
  actions: listOf(requestedActionName, 'Only these actions can be commanded, confirmed and cancelled'),
};

export const restrictTo = z
  .strictObject(lists)
  .refine((given) => Object.values(given).some((list) => list !== undefined), {
    message: 'must have at least one of homes, rooms, groups, devices, categories and actions',
  })
  .meta({
    description:
      'Restricts the key to devices in any of the places (`homes`, `rooms`, `groups`, `devices`), of these categories, and to ' +
      'these actions. Where a device is counts when a request runs. The restriction cannot be changed',
  });

/** In answers. */
export const restrictedTo = z
  .object({
    homes: z.array(uuid).optional(),
    rooms: z.array(uuid).optional(),
    groups: z.array(z.string()).optional(),
    devices: z.array(uuid).optional(),
    categories: z.array(z.string()).optional(),
    actions: z.array(z.string()).optional(),
  })
  .meta({ id: 'KeyRestriction' });

const texts = z.array(z.string()).readonly().exactOptional();

/** As stored with a ticket. Strict: a member that this build does not know would narrow further. */
export const storedRestriction: z.ZodType<KeyRestriction> = z.strictObject({
  ...{ homes: texts, rooms: texts, groups: texts, devices: texts, categories: texts, actions: texts },
});

/** The restriction that a request describes, each list without duplicates. */
export function restrictionOf(given: z.infer<typeof restrictTo>): KeyRestriction {
  const { homes, rooms, groups, devices, categories, actions } = given;
  const once = (list: readonly string[]) => [...new Set(list)];
  return {
    ...(homes !== undefined && { homes: once(homes) }),
    ...(rooms !== undefined && { rooms: once(rooms) }),
    ...(groups !== undefined && { groups: once(groups) }),
    ...(devices !== undefined && { devices: once(devices) }),
    ...(categories !== undefined && { categories: once(categories) }),
    ...(actions !== undefined && { actions: once(actions) }),
  };
}

/** As an answer shows it. */
export const restrictionBody = (restriction: KeyRestriction): z.infer<typeof restrictedTo> =>
  Object.fromEntries(Object.entries(restriction).map(([name, list]) => [name, [...(list as readonly string[])]]));

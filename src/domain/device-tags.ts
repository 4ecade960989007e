import { z } from 'zod';

// Tags of devices (docs/decisions/0059). They describe a device for lists and batches, and decide nothing else.

/** The most tags that a device has, and that a filter names. */
export const MAX_TAGS = 16;

const MAX_TAG_LENGTH = 32;

const tagText = z
  .string()
  .max(MAX_TAG_LENGTH)
  .regex(
    /^[a-z0-9][a-z0-9_.-]*(:[a-z0-9_.-]+)?$/,
    'must be lower-case letters, digits, _ . -, with at most one : between a name and a value',
  );

const distinct = (tags: readonly string[]): string[] => [...new Set(tags)].sort();

/** Tags in a request, of which each counts once; read in the order of their characters. */
export const tagList = z
  .array(tagText)
  .max(MAX_TAGS)
  .transform(distinct)
  .meta({ examples: [['floor:2', 'outdoor']] });

/** A change of a device's tags: the whole list, or tags to remove and then to add. */
export type TagChange = { set: readonly string[] } | { add: readonly string[]; remove: readonly string[] };

/** The tags after the change, in the order of their characters; may be more than `MAX_TAGS`. */
export const tagsAfter = (before: readonly string[], change: TagChange): string[] =>
  'set' in change
    ? distinct(change.set)
    : distinct([...before.filter((tag) => !change.remove.includes(tag)), ...change.add]);

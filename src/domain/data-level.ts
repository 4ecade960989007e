/**
 * Newest stored form of actors that this build reads and may write. Raise it by one when builds before could not read
 * what this one writes: a new version of a machine, or a stored context that their schemas reject. A shard that a node
 * of a level has owned goes only to nodes of that level or a higher one (docs/decisions/0046).
 */
export const DATA_LEVEL = 2;

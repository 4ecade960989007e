import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { collectionsOf, collectionsOfModules, type Made } from '../collections/registry.ts';
import { drained, type Owner } from '../world/scheduler.ts';

/** Kept while late messages are still accepted. */
const WATCHES = 'src/actors/verification-watches.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/**
 * The number of collections of a process and of their entries, by the place that creates them, including those of
 * modules, closures and `#private` members. Pass `watches: false` to ignore verification watches if some are expected.
 */
export async function measure(owner: Owner, also: { watches: boolean }): Promise<Map<string, Made>> {
  await drained();
  collectGarbage();
  const left = collectionsOf(owner);
  if (!also.watches) for (const site of [...left.keys()]) if (site.startsWith(WATCHES)) left.delete(site);
  return left;
}

/**
 * Entries beyond those of a newly started process: caches that a restart empties, and entries that their next use
 * removes. They grow with the number of users, devices and properties, not with the amount of work.
 */
const allowed: Readonly<Record<string, number>> = {
  'src/services/audit-writer.ts': 3,
  'src/services/user-cache.ts': 3,
  'src/services/manifest-cache.ts': 5,
  'src/services/property-times.ts': 25,
  'src/store/cache/memory-rate-limiter.ts': 4,
  'src/edges/mqtt/token-buckets.ts': 3,
};
/** Objects of one place that a stack or compiled code can keep alive after their last use. */
const LINGERING = 3;
/** The behaviour of a machine in a state is computed once and kept in the machine's definition. */
const OF_DEFINITIONS = 'src/machines/compiled.ts';

/** Places where a process holds more entries than a newly started one. */
export function grown(before: Map<string, Made>, base: Map<string, Made>): string[] {
  return [...before].flatMap(([site, { live, entries }]) => {
    const one = base.get(site) ?? { live: 0, entries: 0 };
    const file = site.slice(0, site.lastIndexOf(':'));
    if (file === OF_DEFINITIONS) return [];
    const holdsMore = live <= one.live && entries > one.entries + (allowed[file] ?? 0);
    if (!holdsMore && live <= one.live + LINGERING) return [];
    return [`${site}: ${live} with ${entries} entries, not ${one.live} with ${one.entries}`];
  });
}

/** Places where collections of modules, which no restart empties, have grown since `before`. */
export function modulesGrown(before: Map<string, Made>): string[] {
  return [...collectionsOfModules()].flatMap(([site, { entries }]) => {
    const had = before.get(site)?.entries ?? 0;
    return entries > had ? [`${site}, of a module: ${entries} entries, not ${had}`] : [];
  });
}

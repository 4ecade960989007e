import { currentOwner, type Owner } from '../world/scheduler.ts';

type Collection = { readonly size: number } | { readonly length: number };
type Constructor = new (...args: never[]) => Collection;

/** The collections created at one place of the sources. */
export interface Made {
  live: number;
  /** Entries of all of them. */
  entries: number;
}

/**
 * By owner (a process, or null for a module during its load) and place, such as
 * `src/actors/verification-watches.ts:12`.
 */
const made = new WeakMap<object, Map<string, WeakRef<Collection>[]>>();
/** Collections of modules, which live as long as the program and are shared by all simulated processes. */
const ofModules = {};
let remembersProcesses = true;

/** Whether new collections of simulated processes are registered, which costs time. */
export function rememberProcesses(remember: boolean): void {
  remembersProcesses = remember;
}

function keep<T extends Collection>(site: string, collection: T): T {
  const owner = currentOwner();
  if (owner !== null && !remembersProcesses) return collection;
  const maker = owner ?? ofModules;
  const sites = made.get(maker) ?? new Map<string, WeakRef<Collection>[]>();
  if (sites.size === 0) made.set(maker, sites);
  const refs = sites.get(site);
  if (refs === undefined) sites.set(site, [new WeakRef<Collection>(collection)]);
  else refs.push(new WeakRef<Collection>(collection));
  return collection;
}

/** Entries of an LRU cache of a simulated process. */
const MOST_CACHED = 100;

const constructors = new Map<string, Constructor>();

/** A constructor whose collections are registered. */
export function remembering(site: string, original: Constructor): Constructor {
  const key = `${original.name} ${site}`;
  const known = constructors.get(key);
  if (known !== undefined) return known;
  const proxy = new Proxy(original, {
    construct: (target, args) => keep(site, Reflect.construct(target, bounded(args)) as Collection),
  });
  constructors.set(key, proxy);
  return proxy;
}

/** An LRU cache allocates memory for all its entries at once, which dominates the cost of starting a process. */
function bounded([first, ...rest]: unknown[]): unknown[] {
  const isSized = typeof first === 'object' && first !== null && 'max' in first;
  if (first === undefined) return [];
  return [isSized ? { ...first, max: Math.min(first.max as number, MOST_CACHED) } : first, ...rest];
}

export const rememberedArray = (site: string): unknown[] => keep(site, []);

/** The live collections of a process. Call it after a garbage collection, in a separate task. */
export const collectionsOf = (owner: Owner): Map<string, Made> => leftOf(owner);

/** The collections that modules created when they were loaded. */
export const collectionsOfModules = (): Map<string, Made> => leftOf(ofModules);

function leftOf(maker: object): Map<string, Made> {
  const left = new Map<string, Made>();
  for (const [site, refs] of made.get(maker) ?? []) {
    const all = refs.map((ref) => ref.deref()).filter((one) => one !== undefined);
    const entries = all.reduce((sum, one) => sum + ('size' in one ? one.size : one.length), 0);
    if (all.length > 0) left.set(site, { live: all.length, entries });
  }
  return left;
}

import type { Service } from '../service/process.ts';

/** What belongs to the process, and not to what it holds for its clients. */
const skipped = new Set(['store', 'clock', 'log', 'limits', 'definitions', 'meter', 'cache', 'settings']);
const DEEPEST = 8;

/**
 * How many entries each collection of the runtime holds, by the path of its members. Without `watches` where some are meant to be
 * there.
 */
export function measure({ runtime, services }: Service, also: { watches: boolean }): Map<string, number> {
  const sizes = new Map<string, number>();
  const seen = new Set<object>();
  const visit = (value: unknown, path: string, depth: number): void => {
    if (typeof value !== 'object' || value === null || seen.has(value) || depth > DEEPEST) return;
    seen.add(value);
    if (value instanceof Map || value instanceof Set || Array.isArray(value)) {
      sizes.set(path, value instanceof Map || value instanceof Set ? value.size : value.length);
      return;
    }
    for (const [name, member] of Object.entries(value)) {
      if (!skipped.has(name)) visit(member, `${path}.${name}`, depth + 1);
    }
  };
  if (!also.watches) seen.add(runtime.watches);
  visit(runtime, 'runtime', 0);
  visit(services.locks, 'locks', 0);
  return sizes;
}

/** Collections that hold more than in a process that was just started, with what they hold. */
export function grown(before: Map<string, number>, base: Map<string, number>): string[] {
  return [...before]
    .filter(([path, size]) => size > (base.get(path) ?? 0))
    .map(([path, size]) => `${path}: ${size}, not ${base.get(path) ?? 0}`);
}

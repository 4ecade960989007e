import type { CliContext } from './cli-context.ts';
import { RefusedError, UnreachableError } from './errors.ts';
import { fetchCandidates } from './references.ts';

/** The newest 1,000 devices or members: a table must not wait long for names. */
const MAX_PAGES = 5;

/** The name that a table shows for an id. */
export type ShownNameOf = (id: string) => string;

/**
 * The names of devices, or the addresses of members. An id without a name of its own is shown as it is, and so are all of them
 * if the credential may not list them, if the service does not answer, or with `--json`, which has ids: what a command has done
 * is shown in any case. Without ids nothing is requested.
 */
export async function fetchShownNames(
  { api, json }: Pick<CliContext, 'api' | 'json'>,
  kind: 'device' | 'member',
  ids: Iterable<string | null | undefined>,
): Promise<ShownNameOf> {
  const wanted = new Set([...ids].filter((id) => id != null));
  if (json || wanted.size === 0) return (id) => id;
  const limits = { maxPages: MAX_PAGES, retryWhenBusy: false, partial: true };
  const candidates = await fetchCandidates(api, kind, limits).catch((thrown: unknown) => {
    if (thrown instanceof RefusedError || thrown instanceof UnreachableError) return [];
    throw thrown;
  });
  const counts = new Map<string, number>();
  for (const { names } of candidates) for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const shown = new Map<string, string>();
  for (const { id, names } of candidates) {
    const name = names.at(-1);
    if (name !== undefined && name !== '' && counts.get(name) === 1) shown.set(id, name);
  }
  return (id) => shown.get(id) ?? id;
}

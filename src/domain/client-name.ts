const MAX_LENGTH = 200;

/**
 * A client's name for itself, such as a `User-Agent`, as it is stored: at most 200 characters, without control, formatting
 * and unassigned ones. Null if nothing is left.
 */
export function cleanClientName(given: string | null | undefined): string | null {
  // Cut first: half of a surrogate pair is removed with the other characters of category C.
  const clean = (given ?? '').slice(0, MAX_LENGTH).replace(/\p{C}/gu, '').trim();
  return clean === '' ? null : clean;
}

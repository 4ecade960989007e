/**
 * The media type of `offered` that an `Accept` header prefers (RFC 9110 §12.5.1): the one with the highest weight; of those
 * with the same weight the one that a more specific range names, then the earlier range, then the earlier of `offered`. Null
 * if the header accepts none. Parameters of a range are not compared.
 */
export function preferredType<T extends string>(accept: string | undefined, offered: readonly T[]): T | null {
  const ranges = (accept ?? '*/*').split(',').map(rangeOf);
  let preferred: { type: T; match: Match } | null = null;
  for (const type of offered) {
    const match = matchOf(type, ranges);
    if (match !== null && match.weight > 0 && (preferred === null || isBetter(match, preferred.match)))
      preferred = { type, match };
  }
  return preferred?.type ?? null;
}

interface MediaRange {
  range: string;
  weight: number;
}

/** How a range matches a media type. */
interface Match {
  weight: number;
  /** 2 for the type itself, 1 for `text/*`, 0 for any type. */
  specificity: number;
  /** Position of the range in the header. */
  position: number;
}

function rangeOf(text: string): MediaRange {
  const [range = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
  // A weight that is not one does not make a range the preferred one.
  return { range, weight: /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(weight) ? Number(weight) : 0 };
}

/** The most specific range that matches: it decides the weight of the type. */
function matchOf(type: string, ranges: readonly MediaRange[]): Match | null {
  const names = ['*/*', `${type.slice(0, type.indexOf('/'))}/*`, type];
  for (let specificity = 2; specificity >= 0; specificity -= 1) {
    const position = ranges.findIndex(({ range }) => range === names[specificity]);
    const found = ranges[position];
    if (found !== undefined) return { weight: found.weight, specificity, position };
  }
  return null;
}

const isBetter = (one: Match, other: Match): boolean =>
  one.weight - other.weight > 0 ||
  (one.weight === other.weight &&
    (one.specificity > other.specificity || (one.specificity === other.specificity && one.position < other.position)));

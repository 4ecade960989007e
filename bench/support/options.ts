import { parseArgs } from 'node:util';

export interface Options {
  /** Only checks that the benchmark runs: a few seconds, without a verdict. */
  short: boolean;
  /** Number of measurements of each side of a ratio. */
  tries: number;
  /** Folder for CPU profiles of the service. */
  profile: string | null;
}

/** Command-line options after `npm run bench -- NAME`. */
export function readOptions(tries = 3): Options {
  const { values } = parseArgs({
    options: {
      short: { type: 'boolean', default: false },
      tries: { type: 'string' },
      profile: { type: 'string' },
    },
  });
  const count = values.tries === undefined ? (values.short ? 1 : tries) : Number(values.tries);
  if (!Number.isInteger(count) || count < 1 || count > 100)
    throw new RangeError('--tries must be a number from 1 to 100');
  return { short: values.short, tries: count, profile: values.profile ?? null };
}

import { parseArgs } from 'node:util';

export interface Options {
  /** Only prove that it runs: a few seconds, no verdict. */
  short: boolean;
  /** How often each side of a ratio is measured. */
  tries: number;
  /** Folder that CPU profiles of the service are written to. */
  profile: string | null;
}

/** What stands behind `npm run bench -- NAME`. */
export function readOptions(tries = 3): Options {
  const { values } = parseArgs({
    options: {
      short: { type: 'boolean', default: false },
      tries: { type: 'string' },
      profile: { type: 'string' },
    },
  });
  const asked = values.tries === undefined ? (values.short ? 1 : tries) : Number(values.tries);
  if (!Number.isInteger(asked) || asked < 1 || asked > 100) throw new RangeError('--tries is a number from 1 to 100');
  return { short: values.short, tries: asked, profile: values.profile ?? null };
}

import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { timings } from './cluster.ts';
import { type NemesisDefect, nemesisDefects } from './defects/list.ts';
import { Nemesis, Violation } from './nemesis.ts';
import { randomFrom } from './stages.ts';

/** With half as many if another layer holds: the search does not end before. */
const ROUNDS = 16;
const HELD_ROUNDS = 8;
const SEED = 1;
const TEST_MS = 1_200_000;
const REGISTER = new URL('./defects/register.ts', import.meta.url).href;
const PAGE = new URL('../../docs/testing.md', import.meta.url);
const BEGIN = '<!-- defects of nodes: written by npm run nemesis -- --defects -->';
const END = '<!-- end of defects of nodes -->';

interface Found {
  /** Number of the round, or null for the final comparison. */
  round: number | null;
  violation: string;
}

const roundsOf = (heldBy: string | undefined): number => (heldBy === undefined ? ROUNDS : HELD_ROUNDS);

/** Null if no promise was broken in all rounds and at their end. */
async function search(name: string, { faults, heldBy }: NemesisDefect): Promise<Found | null> {
  const nodeEnv = { NEMESIS_DEFECT: name, NODE_OPTIONS: `--import=${REGISTER}` };
  const nemesis = await Nemesis.start({ nodes: 2, tenants: 2, timing: timings.short, nodeEnv });
  const random = randomFrom(SEED);
  let round: number | null = 0;
  try {
    for (round = 1; round <= roundsOf(heldBy); round += 1) {
      await nemesis.round(random, faults);
      process.stdout.write(`${name}, round ${round}: ${nemesis.log.at(-1)}\n`);
    }
    round = null;
    await nemesis.verify();
    return null;
  } catch (error) {
    if (error instanceof Violation) return { round, violation: error.message };
    throw error;
  } finally {
    await nemesis.close();
    nemesis.removeLogs();
  }
}

const only = process.env.DEFECT;
const searched = Object.entries(nemesisDefects).filter(([name]) => only === undefined || name === only);
const found = new Map<string, Found | null>();

describe('the nemesis', () => {
  it.each(searched)(
    'finds %s, or another layer keeps the promises',
    async (name, defect) => {
      const result = await search(name, defect);
      found.set(name, result);
      process.stdout.write(
        `${name}: ${result === null ? 'nothing found' : `round ${result.round}, ${result.violation}`}\n`,
      );
      if (defect.heldBy === undefined) expect(result).not.toBeNull();
      else expect(result).toBeNull();
    },
    TEST_MS,
  );

  afterAll(() => {
    if (only === undefined && found.size === searched.length) writeTable();
  });
});

function writeTable(): void {
  const page = readFileSync(PAGE, 'utf8');
  const [head, rest] = page.split(BEGIN);
  const tail = rest?.split(END)[1];
  if (head === undefined || tail === undefined) throw new Error('docs/testing.md has no place for the table');
  const rows = Object.entries(nemesisDefects).map(
    ([name, { title, heldBy }]) => `| \`${name}\` | ${title} | ${resultOf(found.get(name) ?? null, heldBy)} |`,
  );
  const table = ['| defect | what is wrong | result |', '|---|---|---|', ...rows].join('\n');
  writeFileSync(PAGE, `${head}${BEGIN}\n${table}\n${END}${tail}`);
}

function resultOf(result: Found | null, heldBy: string | undefined): string {
  if (result === null)
    return `nothing in ${roundsOf(heldBy)} rounds${heldBy === undefined ? ', and no second protection is known' : `: ${heldBy}`}`;
  return `${result.round === null ? 'final comparison' : `round ${result.round}`}: ${summaryOf(result.violation)}`;
}

/** The first violation, without ids. */
const summaryOf = (violation: string): string =>
  (violation.split(/; | after /)[0] ?? '')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '…')
    .replaceAll('|', '\\|')
    .slice(0, 120);

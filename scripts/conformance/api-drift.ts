import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startRedocly } from './redocly.ts';

interface Problem {
  occurrences: number;
  ruleId: string;
  severity: string;
  message: string;
  method: string;
  url: string;
  status?: number;
}

/**
 * What the tests do on purpose to see it refused, as the service did refuse it: that a request breaks the description is
 * then no news. Every answer is judged all the same.
 */
const EXPECTED_REFUSALS: readonly { ruleId: string; statuses: readonly number[] }[] = [
  { ruleId: 'undocumented-endpoint', statuses: [404, 405, 503] },
  { ruleId: 'security-baseline', statuses: [401] },
  { ruleId: 'schema-consistency', statuses: [400] },
];

/** What is no operation of this API: pages, other edges, and what HTTP itself has to every path. */
const OUTSIDE_API =
  /^(OPTIONS|HEAD) |^POST http:\/\/[^/]+\/graphql|^GET http:\/\/[^/]+\/(docs|openapi\.json|asyncapi\.json|graphql|\.well-known\/|((api\/)?v1\/)?auth\/assets\/)/;

const isExpected = ({ ruleId, status = 0, message, method, url }: Problem): boolean =>
  (ruleId === 'undocumented-endpoint' && OUTSIDE_API.test(`${method} ${url}`)) ||
  EXPECTED_REFUSALS.some((one) => one.ruleId === ruleId && one.statuses.includes(status) && !/^Response/.test(message));

/** Holds recorded traffic against the description; answers what is not as it says. */
export async function findDrift(
  folder: string,
  api: string,
  work: string,
): Promise<{ exchanges: number; found: string[] }> {
  const report = join(work, 'drift.json');
  // Headers that a request may carry anyway are told as `info`.
  const args = [folder, `--api=${api}`, '--format=json', '--min-severity=warning', `--output=${report}`];
  // It exits with 1 for what the tests do on purpose too.
  await startRedocly('drift', args, false).ended;
  const { run, problems } = JSON.parse(readFileSync(report, 'utf8')) as {
    run: { totalExchanges: number };
    problems: Problem[];
  };
  const found = problems
    .filter((problem) => !isExpected(problem))
    .map(({ occurrences, ruleId, message, method, url, status }) => {
      return `${ruleId}: ${message} (${method} ${url} → ${status}, ${occurrences} times)`;
    });
  return { exchanges: run.totalExchanges, found };
}

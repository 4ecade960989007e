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
 * Findings that the tests cause on purpose: requests that violate the description and that the service rejected with
 * these statuses. All responses are checked.
 */
const EXPECTED_REFUSALS: readonly { ruleId: string; statuses: readonly number[] }[] = [
  { ruleId: 'undocumented-endpoint', statuses: [404, 405, 503] },
  { ruleId: 'security-baseline', statuses: [401] },
  { ruleId: 'schema-consistency', statuses: [400] },
];

/** Requests that are not operations of this API: pages, other edges, and methods that HTTP defines for every path. */
const OUTSIDE_API =
  /^(OPTIONS|HEAD) |^POST http:\/\/[^/]+\/graphql|^GET http:\/\/[^/]+\/(docs|openapi\.json|asyncapi\.json|graphql|\.well-known\/|((api\/)?v1\/)?auth\/assets\/)/;

const isExpected = ({ ruleId, status = 0, message, method, url }: Problem): boolean =>
  (ruleId === 'undocumented-endpoint' && OUTSIDE_API.test(`${method} ${url}`)) ||
  EXPECTED_REFUSALS.some((one) => one.ruleId === ruleId && one.statuses.includes(status) && !/^Response/.test(message));

/** Checks recorded traffic against the description; returns the deviations. */
export async function findDrift(
  folder: string,
  api: string,
  work: string,
): Promise<{ exchanges: number; found: string[] }> {
  const report = join(work, 'drift.json');
  // Headers that any request may carry are reported as `info`.
  const args = [folder, `--api=${api}`, '--format=json', '--min-severity=warning', `--output=${report}`];
  // It exits with 1 for expected findings too.
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

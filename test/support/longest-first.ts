import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/*
 * Order of the test files. Vitest starts those first that took longest in the last run, and without a last run, as in
 * continuous integration, the largest ones. The size is a poor estimate: the simulation is a short file and takes
 * longest, and a slow file that starts last keeps one worker busy while the others are idle.
 */

/** Files that take more than about 15 s, longest first; a wrong entry only costs time. */
const LONGEST = [
  'simulation/simulation',
  'flows/fence',
  'flows/nodes-keys',
  'flows/rolling-update-contract',
  'flows/rolling-update',
  'console/tenant-administration',
  'flows/standby',
  'console/actors',
  'flows/reference-sidecar',
  'flows/crash',
  'flows/plans',
  'console/devices',
  'cli/program',
  'flows/goal-crash',
  'cli/first-start',
  'flows/write-only-parameters',
  'flows/docs-pages',
  'console/plans',
  'console/confirmations',
  'cli/wait-and-watch',
  'store/postgres/migrate',
  'support/memory-store/store-equivalence',
  'store/postgres/pglite',
  'store/postgres/migrations',
  'endpoints/edge-parity',
  'endpoints/endpoints',
  'flows/clock',
  'properties/openapi-requests',
  'flows/presence',
  'cli/commands/login',
  'flows/database-outage',
  'store/open-after-crash',
].map((name) => `test/${name}.test.ts`);

const rank = ({ moduleId }: TestSpecification): number => {
  const at = LONGEST.indexOf(relative(process.cwd(), moduleId));
  return at === -1 ? LONGEST.length : at;
};

/** Starts the longest files of each project first. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const projects = new Map(sorted.map(({ project }, at) => [project, at]));
    const projectRank = (file: TestSpecification): number => projects.get(file.project) ?? 0;
    return sorted.toSorted((a, b) => projectRank(a) - projectRank(b) || rank(a) - rank(b));
  }
}

import { availableParallelism } from 'node:os';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/support/longest-first.ts';
import { moveTemporaryFilesToMemory } from './test/support/memory-folder.ts';
import { nodeFlags } from './test/support/node-flags.ts';

/*
 * The projects are described in CONTRIBUTING.md. `npm test` runs the first three, `npm run test:all` all of them. A
 * timeout ends a test that hangs; no result depends on the speed of the machine.
 */

moveTemporaryFilesToMemory();

const SHORT_S = 10;
const LONG_S = 30;

const pure = ['test/{domain,protocol,machines,config,scripts}/**', 'test/*'];
/** Parts that use the rules and machines, without a network protocol. */
const core = ['test/{actors,operations,services}/**'];
/** Tests that take seconds: they start processes or an empty embedded database, or flood a connection. */
const process = [
  'test/flows/**',
  'test/cli/**',
  'test/main/sidecar-child',
  'test/proto/foreign-client',
  'test/edges/*/*-hostile-*',
  'test/store/{open-after-crash,lock/advisory-lock,postgres/migrations,postgres/pglite}',
  'test/{actors,store}/**/*.property',
];
const nemesis = ['test/nemesis/*'];
/** Tests that start several nodes as processes, or a service without cached modules. */
const nodes = [
  'test/flows/{nodes,nodes-*,process-group,rolling-update,rolling-update-*,haproxy,nginx}',
  'test/cli/compile-cache',
];
const browser = ['test/console/**', 'test/flows/{docs-pages,explorer-page,sign-in-pages}'];

const files = (patterns: readonly string[]): string[] =>
  patterns.map((pattern) => `${pattern.replace(/\*\*$/, '**/*')}.test.ts`);

/** Number of workers that the servers of a run can serve at once. */
const workers = Math.min(availableParallelism(), 8);
/** Projects of one group run side by side; the groups run one after another. */
const groups = {
  /** More workers than cores: these files spend a quarter of their time waiting for servers, processes, timers and pages. */
  waiting: { maxWorkers: Math.min(Math.ceil(workers * 1.5), 8), sequence: { groupOrder: 0 } },
  busy: { maxWorkers: workers, sequence: { groupOrder: 1 } },
  /** Two files at a time: the processes of one use half of two cores, as they wait for each other. */
  paired: { maxWorkers: Math.min(workers, 2), sequence: { groupOrder: 2 } },
};

interface Limits {
  group: keyof typeof groups;
  /** Time limit of a test. Polls give up a little earlier, so that they can report the missing condition. */
  seconds: number;
}

const project = (name: string, include: string[], exclude: string[], { group, seconds }: Limits) => ({
  extends: true as const,
  test: {
    name,
    include,
    exclude,
    ...groups[group],
    testTimeout: seconds * 1_000,
    expect: { poll: { timeout: seconds * 800 } },
    provide: { pollMs: seconds * 800 },
  },
});

export default defineConfig({
  // The build of graphql that packages in node_modules import. Vite would load its development build as a second copy.
  resolve: { alias: { graphql: fileURLToPath(import.meta.resolve('graphql')) } },
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    execArgv: nodeFlags,
    // Modules are loaded once for each worker, so a file must restore the module state that it changes.
    isolate: false,
    restoreMocks: true,
    unstubEnvs: true,
    unstubGlobals: true,
    sequence: { sequencer: LongestFirst },
    hookTimeout: LONG_S * 1_000,
    teardownTimeout: LONG_S * 1_000,
    projects: [
      project('pure', files(pure), [], { group: 'busy', seconds: SHORT_S }),
      project('core', files(core), files(process), { group: 'busy', seconds: SHORT_S }),
      project('wire', ['test/**/*.test.ts'], files([...pure, ...core, ...process, ...browser, ...nemesis]), {
        ...{ group: 'waiting', seconds: SHORT_S },
      }),
      project('process', files(process), files([...browser, ...nodes]), { group: 'waiting', seconds: LONG_S }),
      project('nodes', files(nodes), [], { group: 'paired', seconds: LONG_S }),
      project('browser', files(browser), [], { group: 'waiting', seconds: LONG_S }),
      // Only by `npm run nemesis`, which sets the variable.
      ...(env.NEMESIS === undefined
        ? []
        : [project('nemesis', files(nemesis), [], { group: 'waiting', seconds: LONG_S })]),
    ],
    // For `npm run coverage`, with the projects pure and core. Coverage costs a third more processor time.
    coverage: {
      provider: 'v8',
      include: ['src/{domain,protocol,machines,actors}/**'],
      reporter: ['text-summary', 'json-summary', 'html'],
      thresholds: { 'src/{domain,protocol,machines,actors}/**': { branches: 95 } },
    },
  },
});

import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { nodeFlags } from './test/support/node.ts';
import { LongestFirst } from './test/support/sequence.ts';

/*
 * CONTRIBUTING.md says which test belongs to which project. `npm test` runs the first three, `npm run test:all` all of
 * them. A timeout ends a test that hangs; how fast the machine is decides no test.
 */

const SHORT_S = 10;
const LONG_S = 30;

const pure = ['test/{domain,protocol,machines,config}/**', 'test/*'];
/** What stands on the rules and machines, without a wire of its own. */
const core = ['test/{actors,operations,services,properties,endpoints}/**'];
/** Start processes, an embedded database from nothing, or peers that send more than is read: each takes seconds. */
const process = [
  'test/flows/**',
  'test/cli/**',
  'test/main/sidecar-child',
  'test/proto/foreign-client',
  'test/edges/*/hostile*',
  'test/store/{crash,lock,migrations,pglite}',
  'test/{actors,store}/**/*.property',
];
const browser = ['test/console/**', 'test/flows/{docs-pages,explorer-page,sign-in-pages}'];

const files = (patterns: readonly string[]): string[] =>
  patterns.map((pattern) => `${pattern.replace(/\*\*$/, '**/*')}.test.ts`);

/** The servers of a run take this many workers at once. */
const workers = Math.min(availableParallelism(), 8);
/** Projects of one group run side by side; the groups run one after another. */
const groups = {
  /** More workers than cores: these files wait for processes, timers and pages a third of their time. */
  waiting: { maxWorkers: Math.min(Math.ceil(workers * 1.5), 8), sequence: { groupOrder: 0 } },
  busy: { maxWorkers: workers, sequence: { groupOrder: 1 } },
};

interface Limits {
  group: keyof typeof groups;
  /** For each test; what polls gives up a little earlier, so that it can say what it waited for. */
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
  // The package that its companions in node_modules import, and Node too: Vite would take its development build beside it.
  resolve: { alias: { graphql: fileURLToPath(import.meta.resolve('graphql')) } },
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    execArgv: nodeFlags,
    // The modules of a file are loaded once for each worker; a file leaves nothing behind in them.
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
      project('wire', ['test/**/*.test.ts'], files([...pure, ...core, ...process, ...browser]), {
        ...{ group: 'busy', seconds: SHORT_S },
      }),
      project('process', files(process), files(browser), { group: 'waiting', seconds: LONG_S }),
      project('browser', files(browser), [], { group: 'waiting', seconds: LONG_S }),
    ],
    // Of the projects pure and core: `npm run coverage`. A covered run costs a third more processor time.
    coverage: {
      provider: 'v8',
      include: ['src/{domain,protocol,machines,actors}/**'],
      reporter: ['text-summary', 'json-summary', 'html'],
      thresholds: { 'src/{domain,protocol,machines,actors}/**': { branches: 95 } },
    },
  },
});

// The mutation score of what decides: `npm run mutation`. Below 80 it fails.
/** @type {import('@stryker-mutator/api/core').PartialStrykerOptions} */
export default {
  mutate: [
    'src/domain/{replay-window,gateway,roles}.ts',
    'src/protocol/{signature,hmac}.ts',
    'src/machines/*.ts',
    '!src/machines/*-types.ts',
    '!src/machines/definition.ts',
  ],
  testRunner: 'vitest',
  vitest: { configFile: 'vitest.pure.config.ts', related: true },
  coverageAnalysis: 'perTest',
  plugins: ['@stryker-mutator/vitest-runner'],
  thresholds: { high: 90, low: 80, break: 80 },
  concurrency: 2,
  timeoutMS: 10_000,
  reporters: ['clear-text', 'progress'],
  clearTextReporter: { allowColor: false, reportTests: false, logTests: false },
  tempDirName: '.stryker-tmp',
  cleanTempDir: 'always',
  ignorePatterns: ['/data', '/dist', '/bench', '/console', '/sidecar', '/coverage'],
  disableTypeChecks: false,
  allowEmpty: true,
};

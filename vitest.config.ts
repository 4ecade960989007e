import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // The package that its companions in node_modules import, and Node too: Vite would take its development build beside it.
  resolve: { alias: { graphql: fileURLToPath(import.meta.resolve('graphql')) } },
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/servers.ts'],
    pool: 'forks',
    maxWorkers: 2,
    // Some tests start a dozen processes one after another, or a browser: on a busy machine each takes seconds.
    testTimeout: 90_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 10_000 } },
    coverage: {
      provider: 'v8',
      include: ['src/domain/**', 'src/machines/**', 'src/actors/**'],
      reporter: ['text-summary', 'json-summary', 'html'],
      thresholds: { 'src/{domain,machines,actors}/**': { branches: 95 } },
    },
  },
});

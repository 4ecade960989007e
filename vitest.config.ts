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
    testTimeout: 30_000,
    hookTimeout: 60_000,
    coverage: {
      provider: 'v8',
      include: ['src/domain/**', 'src/machines/**', 'src/actors/**'],
      reporter: ['text-summary', 'json-summary', 'html'],
      thresholds: { 'src/{domain,machines,actors}/**': { branches: 95 } },
    },
  },
});

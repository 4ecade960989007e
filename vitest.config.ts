import { defineConfig } from 'vitest/config';

export default defineConfig({
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

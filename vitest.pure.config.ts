import { defineConfig } from 'vitest/config';

// The rules and the machines alone: no server is started. The mutation run uses it for every mutant.
export default defineConfig({
  test: {
    include: ['test/domain/**/*.test.ts', 'test/machines/**/*.test.ts'],
    pool: 'threads',
    maxWorkers: 2,
    testTimeout: 30_000,
    coverage: { provider: 'v8', include: ['src/domain/**', 'src/machines/**'], reporter: ['text'] },
  },
});

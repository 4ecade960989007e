import { defineConfig } from 'vitest/config';

// The rules and the machines alone: no server is started. `npm run test:fast`, and the mutation run for every mutant.
export default defineConfig({
  test: {
    include: ['test/{domain,protocol,machines,config}/**/*.test.ts'],
    pool: 'threads',
    restoreMocks: true,
    maxWorkers: '100%',
    testTimeout: 10_000,
    coverage: { provider: 'v8', include: ['src/{domain,protocol,machines}/**'], reporter: ['text'] },
  },
});

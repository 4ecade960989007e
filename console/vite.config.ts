import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';
import { pageBuild } from '../scripts/page-build.ts';

const SERVICE = process.env.TWINKEEP_URL ?? 'http://127.0.0.1:8080';

export default defineConfig(({ command }) => ({
  // Relative asset URLs, so that the service can run under any path.
  base: command === 'serve' ? '/console/' : './',
  plugins: [react()],
  build: pageBuild,
  server: {
    proxy: {
      '/v1': SERVICE,
      '/graphql': SERVICE,
      '/docs': SERVICE,
      '/metrics': SERVICE,
      '/console/about.json': SERVICE,
      '/ws': { target: SERVICE, ws: true },
    },
  },
}));

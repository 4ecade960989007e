import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const SERVICE = process.env.TWINKEEP_URL ?? 'http://127.0.0.1:8080';

export default defineConfig(({ command }) => ({
  // Relative asset URLs, so that the service can run under any path.
  base: command === 'serve' ? '/console/' : './',
  plugins: [react()],
  build: {
    target: 'es2023',
    modulePreload: { polyfill: false },
    // Data URLs would need a weaker Content-Security-Policy.
    assetsInlineLimit: 0,
    // The layout library is large, but loaded on demand.
    chunkSizeWarningLimit: 2_000,
    // The licences of the libraries, which are not dependencies of the package.
    license: { fileName: 'licenses.md' },
  },
  server: {
    proxy: {
      '/v1': SERVICE,
      '/metrics': SERVICE,
      '/console/about.json': SERVICE,
      '/ws': { target: SERVICE, ws: true },
    },
  },
}));

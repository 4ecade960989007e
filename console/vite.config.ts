import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const SERVICE = process.env.TWINKEEP_URL ?? 'http://127.0.0.1:8080';

export default defineConfig(({ command }) => ({
  // What the page loads is named relative to what loads it, so that the service may stand under any path.
  base: command === 'serve' ? '/console/' : './',
  plugins: [react()],
  build: {
    target: 'es2023',
    modulePreload: { polyfill: false },
    // A file in a data URL would need a wider Content-Security-Policy.
    assetsInlineLimit: 0,
    // The layout library is as large as it is, and loaded only where something is drawn.
    chunkSizeWarningLimit: 2_000,
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

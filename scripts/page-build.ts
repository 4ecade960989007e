import type { BuildOptions } from 'vite';

/** Options of both builds of pages, console/ and reference/. */
export const pageBuild = {
  target: 'es2023',
  modulePreload: { polyfill: false },
  // Data URLs would need a weaker Content-Security-Policy.
  assetsInlineLimit: 0,
  // The largest libraries (layout of graphs, Swagger UI, GraphiQL) are in chunks of up to 2 MB.
  chunkSizeWarningLimit: 2_000,
  // The licences of the libraries, which are not dependencies of the package.
  license: { fileName: 'licenses.md' },
} satisfies BuildOptions;

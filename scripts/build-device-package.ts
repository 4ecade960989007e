import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

/*
 * Builds the package @twinkeep/device: src/device with the modules that it imports, mqtt and canonicalize, bundled into
 * a module for each of its entry points, so that an installation has no dependencies. An argument names another output
 * folder than packages/device/dist. Run it as a process: Vite sets NODE_ENV for the whole of it.
 */

const root = fileURLToPath(new URL('..', import.meta.url));
const output = process.argv[2] ?? join(root, 'packages/device/dist');
/** Native accelerators that `ws` tries to load, and does without. */
const OPTIONAL = ['bufferutil', 'utf-8-validate'];

rmSync(output, { recursive: true, force: true });
await build({
  configFile: false,
  root,
  publicDir: false,
  logLevel: 'warn',
  define: { 'process.env.NODE_ENV': JSON.stringify('production') },
  ssr: { noExternal: true, target: 'node' },
  build: {
    ssr: true,
    outDir: output,
    emptyOutDir: false,
    target: 'es2023',
    minify: false,
    license: { fileName: 'licenses.md' },
    rolldownOptions: {
      input: {
        device: join(root, 'src/device/device.ts'),
        firmware: join(root, 'src/device/firmware/fetch.ts'),
        store: join(root, 'src/device/store.ts'),
      },
      external: (id) => isBuiltin(id) || OPTIONAL.includes(id),
      output: { entryFileNames: '[name].js', chunkFileNames: 'shared-[hash].js' },
    },
  },
});
execFileSync(
  process.execPath,
  [
    join(root, 'node_modules/tsc7/bin/tsc'),
    ...['-p', join(root, 'tsconfig.device.json'), '--outDir', join(output, 'types')],
  ],
  { stdio: 'inherit' },
);

/*
 * Keeps this build as the previous one, for the test that runs it side by side with a later build: compiles `src` and
 * writes it with the files that it reads to test/support/previous-build.json.br. Run it at a release, and only then. An
 * argument names the folder of another checkout.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants } from 'node:zlib';

const repository = fileURLToPath(new URL('..', import.meta.url));
const root = process.argv[2] ?? repository;
const kept = join(repository, 'test/support/previous-build.json.br');
/** The record of what the build writes into the rows of actors. */
const STORED_FORMS = 'stored-forms.json';
const compiler = join(repository, 'node_modules/tsc7/bin/tsc');

const read = (path: string): string => readFileSync(path, 'utf8');

/** The files with these endings in a folder, by their path in the build. */
const filesIn = (folder: string, prefix: string, ending: string): [string, string][] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .sort()
    .map((name) => [`${prefix}/${name}`, read(join(folder, name))]);

const compiled = mkdtempSync(join(tmpdir(), 'twinkeep-build-'));
try {
  const options = ['--declaration', 'false', '--sourceMap', 'false', '--removeComments'];
  execFileSync(
    process.execPath,
    [compiler, '-p', join(root, 'tsconfig.build.json'), '--outDir', compiled, ...options],
    {
      stdio: 'inherit',
    },
  );
  const files = Object.fromEntries([
    ...['package.json', 'CHANGELOG.md'].map((name) => [name, read(join(root, name))]),
    ...filesIn(compiled, 'dist', '.js'),
    ...filesIn(join(root, 'proto/gen'), 'proto/gen', '.js'),
    [STORED_FORMS, read(join(root, 'test/machines', STORED_FORMS))],
  ]);
  const bytes = brotliCompressSync(JSON.stringify(files), {
    params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY, [constants.BROTLI_PARAM_LGWIN]: 24 },
  });
  writeFileSync(kept, bytes);
  console.log(`${kept}: ${Object.keys(files).length} files, ${bytes.length} bytes`);
} finally {
  rmSync(compiled, { recursive: true, force: true });
}

import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

// Writes dist/sbom.cdx.json: what an installation of the package consists of, in CycloneDX 1.5.

const root = fileURLToPath(new URL('..', import.meta.url));
/** The property by which `npm sbom` marks packages that only development needs. */
const DEVELOPMENT = 'cdx:npm:package:development';
const BUNDLED = 'twinkeep:bundled';

interface Component {
  'bom-ref': string;
  name: string;
  version: string;
  scope: string;
  properties: { name: string; value: string }[];
}
export interface Sbom {
  metadata: { component: { 'bom-ref': string; name: string } };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

/** Every package in package-lock.json, by npm, without the network. */
async function sbomOfLockFile(): Promise<Sbom> {
  // Without the workspaces, which are separate packages.
  const args = ['sbom', '--sbom-format=cyclonedx', '--package-lock-only', '--offline', '--workspaces=false'];
  // Set by npm for its scripts: the file of the npm that runs.
  const { npm_execpath: npm } = process.env;
  const [file, given] = npm?.endsWith('.js') ? [process.execPath, [npm, ...args]] : ['npm', args];
  const { stdout } = await promisify(execFile)(file, given, { cwd: root, maxBuffer: 64 * 1024 * 1024 });
  return JSON.parse(stdout) as Sbom;
}

/** The `name@version` of the packages in a list of licenses that Vite has written. */
export const bundledPackages = (licenses: string): string[] =>
  [...licenses.matchAll(/^## (\S+) - (\S+) \(/gm)].map(([, name, version]) => `${name}@${version}`);

/**
 * Keeps what an installation has: the dependencies, and the development packages whose code is `bundled` into the pages.
 * (`--omit=dev` of npm 11 also leaves out dependencies that development packages need too.)
 */
export function installedSbom(all: Sbom, { name, bundled }: { name: string; bundled: readonly string[] }): Sbom {
  const rootRef = all.metadata.component['bom-ref'];
  const isDevelopment = ({ properties }: Component) => properties.some((property) => property.name === DEVELOPMENT);
  const isBundled = (component: Component) => bundled.includes(component['bom-ref']);
  const components = all.components
    .filter((component) => !isDevelopment(component) || isBundled(component))
    .map((component) =>
      isDevelopment(component)
        ? { ...component, scope: 'required', properties: [{ name: BUNDLED, value: 'true' }] }
        : component,
    );
  const kept = new Set([rootRef, ...components.map((component) => component['bom-ref'])]);
  const missing = bundled.filter((ref) => !kept.has(ref));
  if (missing.length > 0) throw new Error(`not in package-lock.json: ${missing.join(', ')}`);
  const dependencies = all.dependencies
    .filter(({ ref }) => kept.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => kept.has(other)) }));
  // npm takes the name of the folder.
  const metadata = { ...all.metadata, component: { ...all.metadata.component, name } };
  return { ...all, metadata, components, dependencies };
}

/** The packages whose code is in the built pages. */
function packagesOfPages(): string[] {
  const lists = ['console', 'reference'].map((pages) => readFileSync(join(root, 'dist', pages, 'licenses.md'), 'utf8'));
  const { devDependencies } = readPackage();
  // Copied as files, with a separate list of licenses.
  return [...new Set([...lists.flatMap(bundledPackages), `swagger-ui-dist@${devDependencies['swagger-ui-dist']}`])];
}

const readPackage = () =>
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    name: string;
    devDependencies: Record<string, string>;
  };

/** Creates the SBOM; `bundled` are the packages whose code is in the built pages. */
export const makeSbom = async (bundled: readonly string[]): Promise<Sbom> =>
  installedSbom(await sbomOfLockFile(), { name: readPackage().name, bundled });

if (import.meta.main) {
  const sbom = await makeSbom(packagesOfPages());
  writeFileSync(join(root, 'dist/sbom.cdx.json'), `${JSON.stringify(sbom, null, 2)}\n`);
}

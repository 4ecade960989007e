import { readdir, readFile, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** A built file of the console. */
export interface ConsoleFile {
  type: string;
  body: Buffer;
  /** The gzipped body; null if that is not smaller. */
  gzipped(): Promise<Buffer | null>;
}

/**
 * The console's build output, cached in memory. Files are looked up in the list of the folder's names, so a request path is
 * never used as a file path.
 */
export interface ConsoleFiles {
  /** The HTML page; null before the first build. Checks the file's modification time, so a new build needs no restart. */
  page(): Promise<string | null>;
  asset(name: string): Promise<ConsoleFile | null>;
}

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
};

interface Build {
  /** Modification time of its page. */
  modifiedAt: number;
  page: string;
  assets: ReadonlyMap<string, ConsoleFile>;
}

const deflate = promisify(gzip);

export function makeConsoleFiles(folder: URL): ConsoleFiles {
  const pageAt = new URL('index.html', folder);
  let latest: Promise<Build> | null = null;

  async function current(): Promise<Build | null> {
    const modifiedAt = await stat(pageAt).then(
      ({ mtimeMs }) => mtimeMs,
      () => null,
    );
    if (modifiedAt === null) return null;
    const cached = await latest?.catch(() => null);
    if (cached?.modifiedAt === modifiedAt) return cached;
    latest = load(folder, modifiedAt);
    return latest;
  }

  return {
    page: async () => (await current())?.page ?? null,
    async asset(name) {
      const build = latest === null ? await current() : await latest;
      return build?.assets.get(name) ?? null;
    },
  };
}

async function load(folder: URL, modifiedAt: number): Promise<Build> {
  const assetFolder = new URL('assets/', folder);
  const names = (await readdir(assetFolder)).filter((name) => Object.hasOwn(types, extname(name)));
  const assets = await Promise.all(
    names.map(async (name) => [name, fileOf(name, await readFile(new URL(name, assetFolder)))] as const),
  );
  return { modifiedAt, page: await readFile(new URL('index.html', folder), 'utf8'), assets: new Map(assets) };
}

function fileOf(name: string, body: Buffer): ConsoleFile {
  let compressed: Promise<Buffer | null> | null = null;
  return {
    type: types[extname(name)] as string,
    body,
    gzipped() {
      compressed ??= deflate(body, { level: 9 }).then((smaller) => (smaller.length < body.length ? smaller : null));
      return compressed;
    },
  };
}

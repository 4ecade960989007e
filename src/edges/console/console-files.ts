import { readdir, readFile, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** A built file of the console, as it is sent. */
export interface ConsoleFile {
  type: string;
  body: Buffer;
  /** Its gzip; null where that is not smaller. */
  gzipped(): Promise<Buffer | null>;
}

/** What the build made, held in memory. Only names that are in the folder are known: no request becomes a path. */
export interface ConsoleFiles {
  /** The page; null where nothing was built. It is looked at on the disk, so that a new build shows without a restart. */
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
  /** When its page was written. */
  at: number;
  page: string;
  assets: ReadonlyMap<string, ConsoleFile>;
}

const deflate = promisify(gzip);

export function makeConsoleFiles(folder: URL): ConsoleFiles {
  const pageAt = new URL('index.html', folder);
  let known: Promise<Build> | null = null;

  async function current(): Promise<Build | null> {
    const at = await stat(pageAt).then(
      ({ mtimeMs }) => mtimeMs,
      () => null,
    );
    if (at === null) return null;
    const before = await known?.catch(() => null);
    if (before?.at === at) return before;
    known = load(folder, at);
    return known;
  }

  return {
    page: async () => (await current())?.page ?? null,
    async asset(name) {
      const build = known === null ? await current() : await known;
      return build?.assets.get(name) ?? null;
    },
  };
}

async function load(folder: URL, at: number): Promise<Build> {
  const within = new URL('assets/', folder);
  const names = (await readdir(within)).filter((name) => Object.hasOwn(types, extname(name)));
  const assets = await Promise.all(
    names.map(async (name) => [name, fileOf(name, await readFile(new URL(name, within)))] as const),
  );
  return { at, page: await readFile(new URL('index.html', folder), 'utf8'), assets: new Map(assets) };
}

function fileOf(name: string, body: Buffer): ConsoleFile {
  let zipped: Promise<Buffer | null> | null = null;
  return {
    type: types[extname(name)] as string,
    body,
    gzipped() {
      zipped ??= deflate(body, { level: 9 }).then((smaller) => (smaller.length < body.length ? smaller : null));
      return zipped;
    },
  };
}

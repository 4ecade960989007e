import { readdir, readFile, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Content } from './http-exchange.ts';

/**
 * The output of a build by Vite, cached in memory. Files are looked up in the list of the folder's names, so a request
 * path is never used as a file path.
 */
export interface BuiltFiles {
  /** The HTML page of this name; null before the first build. A new build is noticed, so it needs no restart. */
  page(name: string): Promise<string | null>;
  /** An asset, compressed if `acceptEncoding` allows it; null if there is none of this name. */
  asset(name: string, acceptEncoding: string | undefined): Promise<Content | null>;
}

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
};

/** Names of assets contain a hash of their content. */
const IMMUTABLE_CACHE = 'public, max-age=31536000, immutable';

interface BuiltFile {
  type: string;
  body: Buffer;
  /** The gzipped body; null if that is not smaller. */
  gzipped(): Promise<Buffer | null>;
}

interface Build {
  /** Modification time of the build's stamp. */
  modifiedAt: number;
  pages: ReadonlyMap<string, string>;
  assets: ReadonlyMap<string, BuiltFile>;
}

const deflate = promisify(gzip);

export function makeBuiltFiles(folder: URL): BuiltFiles {
  const stamp = new URL('built-from', folder);
  let latest: Promise<Build> | null = null;

  async function current(): Promise<Build | null> {
    const modifiedAt = await stat(stamp).then(
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
    page: async (name) => (await current())?.pages.get(`${name}.html`) ?? null,
    async asset(name, acceptEncoding) {
      const build = latest === null ? await current() : await latest;
      const file = build?.assets.get(name);
      return file === undefined ? null : contentOf(file, acceptEncoding);
    },
  };
}

async function load(folder: URL, modifiedAt: number): Promise<Build> {
  const assetFolder = new URL('assets/', folder);
  const pageNames = (await readdir(folder)).filter((name) => extname(name) === '.html');
  const assetNames = (await readdir(assetFolder)).filter((name) => Object.hasOwn(types, extname(name)));
  const [pages, assets] = await Promise.all([
    Promise.all(pageNames.map(async (name) => [name, await readFile(new URL(name, folder), 'utf8')] as const)),
    Promise.all(
      assetNames.map(async (name) => [name, fileOf(name, await readFile(new URL(name, assetFolder)))] as const),
    ),
  ]);
  return { modifiedAt, pages: new Map(pages), assets: new Map(assets) };
}

function fileOf(name: string, body: Buffer): BuiltFile {
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

async function contentOf(file: BuiltFile, acceptEncoding: string | undefined): Promise<Content> {
  const compressed = acceptsGzip(acceptEncoding) ? await file.gzipped() : null;
  const headers = ['Vary', 'Accept-Encoding', ...(compressed === null ? [] : ['Content-Encoding', 'gzip'])];
  return { type: file.type, body: compressed ?? file.body, cache: IMMUTABLE_CACHE, headers };
}

const acceptsGzip = (acceptEncoding = ''): boolean =>
  /(^|,)\s*(gzip|\*)\s*(;\s*q=(?!0(\.0*)?\s*(,|$))[^,]*)?(,|$)/i.test(acceptEncoding);

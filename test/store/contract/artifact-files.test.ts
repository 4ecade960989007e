import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Uuid } from '../../../src/domain/values.ts';
import { artifactFolder } from '../../../src/store/artifact-folder.ts';
import type { ArtifactFiles, ByteRange } from '../../../src/store/contract/artifact-files.ts';
import { newId } from '../../support/actor-commits.ts';
import { bufferBytesInUse } from '../../support/buffer-memory.ts';
import { slow } from '../../support/slow.ts';
import { type Backend, eachStore, onPostgres } from '../../support/store.ts';

interface Subject {
  files(): ArtifactFiles;
  /** A new, registered name. */
  begin(): Promise<Uuid>;
  /** A reader that has begun can continue after the removal. */
  readersContinue: boolean;
}

const MIB = 1024 * 1024;

async function* inChunks(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(Uint8Array.from(chunk));
  return Buffer.concat(all);
}

function suite({ files, begin, readersContinue }: Subject): void {
  const bytes = randomBytes(600_001);
  let name: Uuid;
  beforeAll(async () => {
    name = await begin();
    // Sizes that divide no chunk of a store.
    const written = await files().write(name, inChunks(bytes, 70_003), bytes.length);
    expect(written).toEqual({ bytes: bytes.length, checksum: createHash('sha256').update(bytes).digest('hex') });
  });

  const read = async (of: Uuid, range: ByteRange): Promise<Buffer> => {
    const opened = await files().open(of);
    if (opened === null) throw new Error('the artifact does not exist');
    return collect(opened.read(range));
  };

  it('is returned as it was written, with its size', async () => {
    expect(await files().open(name)).toMatchObject({ bytes: bytes.length });
    expect((await read(name, { start: 0, end: bytes.length - 1 })).equals(bytes)).toBe(true);
  });

  it.each([
    [0, 0],
    [600_000, 600_000],
    [5, 9],
    [262_143, 262_144],
    [262_144, 524_287],
    [262_143, 524_288],
    [100_000, 600_000],
    [524_288, 600_000],
  ])('is read from byte %i to byte %i', async (start, end) => {
    expect((await read(name, { start, end })).equals(bytes.subarray(start, end + 1))).toBe(true);
  });

  it('can be read several times at once', async () => {
    const opened = await files().open(name);
    const ranges = Array.from({ length: 12 }, (_, n) => ({ start: n * 50_000, end: n * 50_000 + 49_999 }));
    const parts = await Promise.all(ranges.map((range) => collect(opened?.read(range) ?? inChunks(bytes, 1))));
    expect(Buffer.concat(parts).equals(bytes.subarray(0, 600_000))).toBe(true);
  });

  it('that was never written, or is not complete, does not exist', async () => {
    expect(await files().open(newId())).toBeNull();
    const incomplete = await begin();
    let seen: unknown;
    async function* looking() {
      yield bytes.subarray(0, 300_000);
      seen = await files().open(incomplete);
      yield bytes.subarray(300_000);
    }
    await files().write(incomplete, looking(), bytes.length);
    expect(seen).toBeNull();
    expect(await files().open(incomplete)).toMatchObject({ bytes: bytes.length });
  });

  it('may be empty', async () => {
    const empty = await begin();
    const checksum = createHash('sha256').digest('hex');
    expect(await files().write(empty, inChunks(bytes.subarray(0, 0), 1), 1)).toEqual({ bytes: 0, checksum });
    expect(await files().open(empty)).toMatchObject({ bytes: 0 });
  });

  it('is not affected by others that are written at the same time', async () => {
    const sources = await Promise.all([1, 2, 3].map(async (fill) => ({ name: await begin(), fill })));
    const contents = sources.map(({ fill }) => Buffer.alloc(300_000, fill));
    await Promise.all(sources.map((one, n) => files().write(one.name, inChunks(contents[n] as Buffer, 65_536), MIB)));
    for (const [n, one] of sources.entries()) {
      expect((await read(one.name, { start: 0, end: 299_999 })).equals(contents[n] as Buffer)).toBe(true);
    }
  });

  it('that is too large, or whose source fails, leaves nothing', async () => {
    const [large, broken] = [await begin(), await begin()];
    await expect(files().write(large, inChunks(bytes, 70_003), bytes.length - 1)).rejects.toMatchObject({
      name: 'ArtifactTooLarge',
    });
    async function* failing() {
      yield bytes;
      throw new Error('broken off');
    }
    await expect(files().write(broken, failing(), MIB)).rejects.toThrow('broken off');
    expect([await files().open(large), await files().open(broken)]).toEqual([null, null]);
  });

  it('is removed once or several times, also at the same time', async () => {
    const removed = await begin();
    await files().write(removed, inChunks(bytes, 65_536), MIB);
    await Promise.all([files().remove(removed), files().remove(removed)]);
    await files().remove(removed);
    expect(await files().open(removed)).toBeNull();
    await files().remove(newId());
  });

  it('that is removed while it is read ends with its bytes or with an error', async () => {
    const removed = await begin();
    await files().write(removed, inChunks(bytes, 65_536), MIB);
    const opened = await files().open(removed);
    const reader = opened?.read({ start: 0, end: bytes.length - 1 })[Symbol.asyncIterator]();
    const first = await reader?.next();
    await files().remove(removed);
    async function* rest() {
      yield first?.value as Uint8Array;
      for (let next = await reader?.next(); next?.done === false; next = await reader?.next()) yield next.value;
    }
    if (readersContinue) expect((await collect(rest())).equals(bytes)).toBe(true);
    else await expect(collect(rest())).rejects.toMatchObject({ name: 'StoreUnavailable' });
    const later = opened?.read({ start: 0, end: 9 }) ?? inChunks(bytes, 1);
    await expect(collect(later)).rejects.toMatchObject({ name: 'StoreUnavailable' });
  });
}

function largeSuite({ files, begin }: Pick<Subject, 'files' | 'begin'>): void {
  it('of 16 MiB is never in memory as a whole', slow, async () => {
    const size = 16 * MIB;
    const chunk = Buffer.alloc(MIB, 7);
    const before = bufferBytesInUse();
    let written = 0;
    async function* source() {
      for (let left = size; left > 0; left -= chunk.length) {
        if (left === chunk.length) written = bufferBytesInUse() - before;
        yield chunk;
      }
    }
    const large = await begin();
    await files().write(large, source(), size);
    let received = 0;
    let held = 0;
    const opened = await files().open(large);
    for await (const part of opened?.read({ start: 0, end: size - 1 }) ?? []) {
      received += part.length;
      if (received > size - part.length) held = bufferBytesInUse() - before;
    }
    expect(received).toBe(size);
    expect(Math.max(written, held)).toBeLessThan(size / 4);
    await files().remove(large);
  });
}

describe('an artifact (folder)', () => {
  const root = mkdtempSync(join(tmpdir(), 'twinkeep-artifacts-'));
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  const files = artifactFolder(root);
  const subject: Subject = { files: () => files, begin: async () => newId(), readersContinue: true };
  suite(subject);
  largeSuite(subject);
});

const inStore = (backend: () => Backend): Subject => ({
  files: () => backend().store.artifactFiles,
  async begin() {
    const name = newId();
    await backend().store.firmware.beginArtifact(name, 1);
    return name;
  },
  readersContinue: false,
});

eachStore('an artifact', (backend) => suite(inStore(backend)));

/** Buffers that were sent to the thread of PGlite count until the thread collects its garbage. */
onPostgres('an artifact', (backend) => largeSuite(inStore(backend)));

import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Uuid } from '../../../src/domain/values.ts';
import type { ArtifactFiles } from '../../../src/store/contract/artifact-files.ts';
import { CommitUnknown } from '../../../src/store/contract.ts';
import { databaseArtifactFiles } from '../../../src/store/postgres/artifact-files.ts';
import type { Database, Statement } from '../../../src/store/postgres/database.ts';
import { newId } from '../../support/actor-commits.ts';
import { eachDatabase } from '../../support/store.ts';

const CHUNK = 256 * 1024;
const content = randomBytes(3 * CHUNK - 5);
const whole = { start: 0, end: content.length - 1 };

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function collect(files: ArtifactFiles, name: Uuid): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of (await files.open(name))?.read(whole) ?? []) chunks.push(chunk);
  return Buffer.concat(chunks);
}

eachDatabase('artifacts in the database', (backend) => {
  const begin = async (): Promise<Uuid> => {
    const name = newId();
    await backend().store.firmware.beginArtifact(name, 1);
    return name;
  };
  const chunksOf = (name: Uuid) =>
    backend().database.read<{ start: number; length: number }>({
      text: 'select start, octet_length(bytes) as length from artifact_chunks where artifact = $1 order by start',
      values: [name],
    });

  it('are rows of 256 KiB, which are deleted with the registration', async () => {
    const { store } = backend();
    const name = await begin();
    await store.artifactFiles.write(name, once(content), content.length);
    expect(await chunksOf(name)).toEqual([
      { start: 0, length: CHUNK },
      { start: CHUNK, length: CHUNK },
      { start: 2 * CHUNK, length: CHUNK - 5 },
    ]);
    await store.firmware.forgetArtifacts([name]);
    expect(await chunksOf(name)).toEqual([]);
  });

  it('leave no rows of a broken upload, and none of an upload whose registration was removed', async () => {
    const { store } = backend();
    const [broken, removed] = [await begin(), await begin()];
    async function* failing() {
      yield content;
      expect(await chunksOf(broken)).toHaveLength(2);
      throw new Error('broken off');
    }
    await expect(store.artifactFiles.write(broken, failing(), content.length)).rejects.toThrow('broken off');
    async function* forgetting() {
      yield content;
      await store.firmware.forgetArtifacts([removed]);
      yield content;
    }
    await expect(store.artifactFiles.write(removed, forgetting(), 2 * content.length)).rejects.toMatchObject({
      ...{ name: 'DataRefused', sqlState: '23503' },
    });
    await expect(store.artifactFiles.write(newId(), once(Buffer.alloc(0)), 1)).rejects.toMatchObject({
      ...{ name: 'DataRefused', sqlState: '23503' },
    });
    expect([await chunksOf(broken), await chunksOf(removed)]).toEqual([[], []]);
  });

  it('may have longer rows, which are read in parts', async () => {
    const { store, database } = backend();
    const name = await begin();
    await database.write({
      text: 'insert into artifact_chunks (artifact, start, bytes) values ($1, 0, $2)',
      values: [name, content],
    });
    await database.write({ text: 'update artifacts set bytes = $2 where name = $1', values: [name, content.length] });
    const lengths: number[] = [];
    for await (const chunk of (await store.artifactFiles.open(name))?.read(whole) ?? []) lengths.push(chunk.length);
    expect(lengths).toEqual([CHUNK, CHUNK, CHUNK - 5]);
    expect((await collect(store.artifactFiles, name)).equals(content)).toBe(true);
  });

  it('hold no connection while a reader or a source pauses', async () => {
    const { store } = backend();
    const name = await begin();
    await store.artifactFiles.write(name, once(content), content.length);
    const opened = await store.artifactFiles.open(name);
    const readers = Array.from({ length: 20 }, () => opened?.read(whole)[Symbol.asyncIterator]());
    for (const reader of readers) expect((await reader?.next())?.done).toBe(false);
    let proceed = () => {};
    const paused = new Promise<void>((resolve) => {
      proceed = resolve;
    });
    async function* pausing() {
      yield content;
      await paused;
    }
    const uploads = await Promise.all(Array.from({ length: 20 }, begin));
    const writing = uploads.map((one) => store.artifactFiles.write(one, pausing(), content.length));
    await expect.poll(async () => (await chunksOf(uploads.at(-1) ?? '')).length).toBe(2);
    // The pool has at most 8 connections.
    await store.ping(5_000);
    proceed();
    await Promise.all(writing);
    for (const reader of readers) expect((await reader?.next())?.done).toBe(false);
  });

  it('are complete when the outcome of a commit was unknown and the statement is repeated', async () => {
    const { store, database } = backend();
    const name = await begin();
    const executed = new Set<string>();
    let lost = 0;
    const flaky = withWrite(database, async (statement) => {
      const rows = await database.write(statement);
      const key = `${statement.values?.[1]}`.slice(0, 20);
      if (executed.has(key)) return rows as never[];
      executed.add(key);
      lost += 1;
      throw new CommitUnknown('the connection was lost');
    });
    await databaseArtifactFiles(flaky).write(name, once(content), content.length);
    expect(lost).toBe(4);
    expect((await collect(store.artifactFiles, name)).equals(content)).toBe(true);
  });

  it('report a store that stays away as unavailable, not as an unknown outcome', async () => {
    const never = withWrite(backend().database, async () => {
      throw new CommitUnknown('the connection was lost');
    });
    const writing = databaseArtifactFiles(never).write(await begin(), once(content), content.length);
    await expect(writing).rejects.toMatchObject({ name: 'StoreUnavailable' });
  });
});

const withWrite = (database: Database, write: Database['write']): Database =>
  ({ embedded: database.embedded, read: (statement: Statement) => database.read(statement), write }) as Database;

describe('statements for artifacts', () => {
  it.each([
    { embedded: false, most: 2 },
    { embedded: true, most: 1 },
  ])('run $most at a time (embedded: $embedded)', async ({ embedded, most }) => {
    const bytes = Buffer.alloc(CHUNK);
    let running = 0;
    let highest = 0;
    const answer = async () => {
      running += 1;
      highest = Math.max(highest, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      return [{ bytes: 4 * CHUNK, text: bytes.toString('base64') }];
    };
    const files = databaseArtifactFiles({ embedded, read: answer, write: answer } as unknown as Database);
    const opened = await files.open('one');
    const readAll = async () => {
      for await (const chunk of opened?.read({ start: 0, end: opened.bytes - 1 }) ?? [])
        expect(chunk).toHaveLength(CHUNK);
    };
    await Promise.all([...Array.from({ length: 10 }, readAll), files.write('two', once(bytes), CHUNK)]);
    expect(highest).toBe(most);
  });
});

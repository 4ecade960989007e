import type { SizeReporter } from '../../domain/collection-sizes.ts';
import { Semaphore } from '../../domain/semaphore.ts';
import type { Uuid } from '../../domain/values.ts';
import { ArtifactDigest } from '../artifact-digest.ts';
import type { ArtifactFiles, ByteRange } from '../contract/artifact-files.ts';
import { CommitUnknown, DataRefused, StoreUnavailable } from '../contract.ts';
import type { Database, Statement } from './database.ts';

/** Most bytes that a statement writes or reads. */
const CHUNK_BYTES = 256 * 1024;
/** Statements for artifacts at once, so that group commits do not wait for a connection behind many downloads. */
const STATEMENTS = 2;
/** SQLSTATE `foreign_key_violation`. */
const FOREIGN_KEY_VIOLATION = '23503';

/**
 * Artifacts as rows of `artifact_chunks`. Each statement writes or reads one chunk in a transaction of its own, so a
 * slow upload or download holds no connection. Rows are deleted with the registration of their artifact.
 */
export function databaseArtifactFiles(database: Database): ArtifactFiles & SizeReporter {
  const permits = new Semaphore(database.embedded ? 1 : STATEMENTS);

  /** A write that may be sent twice. `again` replaces the statement after a commit whose outcome is unknown. */
  const write = <Row extends object>(statement: Statement, again = statement): Promise<Row[]> =>
    permits.run(async () => {
      try {
        return await database.write<Row>(statement);
      } catch (error) {
        if (!(error instanceof CommitUnknown)) throw error;
      }
      return database.write<Row>(again).catch((error: unknown) => {
        throw error instanceof CommitUnknown ? new StoreUnavailable(error.message, { cause: error }) : error;
      });
    });

  const insert = async (name: Uuid, start: number, bytes: Buffer): Promise<void> => {
    const text = 'insert into artifact_chunks (artifact, start, bytes) values ($1, $2, $3)';
    const values = [name, start, bytes];
    await write(
      { name: 'artifact_chunk_insert', text, values },
      { name: 'artifact_chunk_insert_again', text: `${text} on conflict do nothing`, values },
    );
  };

  const complete = async (name: Uuid, bytes: number): Promise<void> => {
    const rows = await write({
      name: 'artifact_complete',
      text: 'update artifacts set bytes = $2 where name = $1 returning name',
      values: [name, bytes],
    });
    if (rows.length === 0) throw new DataRefused(FOREIGN_KEY_VIOLATION, 'the artifact is not registered');
  };

  const remove = async (name: Uuid): Promise<void> => {
    await write({
      name: 'artifact_remove',
      // In this order, in which the deletion of a registration locks the rows too: otherwise two removals could deadlock.
      text: `with incomplete as (update artifacts set bytes = null where name = $1 returning name)
        delete from artifact_chunks where artifact in (select name from incomplete)`,
      values: [name],
    });
  };

  async function* read(name: Uuid, { start, end }: ByteRange): AsyncGenerator<Uint8Array> {
    for (let at = start; at <= end; ) {
      const statement = {
        name: 'artifact_chunk',
        // As base64 a chunk is received and decoded faster than in the hexadecimal format of `bytea`.
        text: `select encode(substring(bytes from ($2::bigint - start + 1)::integer for $3::integer), 'base64') as text
          from artifact_chunks where artifact = $1 and start <= $2 order by start desc limit 1`,
        values: [name, at, Math.min(end - at + 1, CHUNK_BYTES)],
      };
      const [row] = await permits.run(() => database.read<{ text: string }>(statement));
      const bytes = Buffer.from(row?.text ?? '', 'base64');
      if (bytes.length === 0) throw new StoreUnavailable('the artifact was removed');
      at += bytes.length;
      yield bytes;
    }
  }

  return {
    remove,
    sizes: () => ({ artifact_statements_waiting: permits.waiting }),
    async write(name, source, maxBytes) {
      try {
        const digest = new ArtifactDigest(maxBytes);
        let start = 0;
        for await (const chunk of rechunked(digested(source, digest))) {
          await insert(name, start, chunk);
          start += chunk.length;
        }
        await complete(name, start);
        return digest.finish();
      } catch (error) {
        // A failed clean-up must not hide the original error.
        await remove(name).catch(() => {});
        throw error;
      }
    },
    async open(name) {
      const [row] = await database.read<{ bytes: number }>({
        name: 'artifact_open',
        text: 'select bytes from artifacts where name = $1 and bytes is not null',
        values: [name],
      });
      return row === undefined ? null : { bytes: row.bytes, read: (range) => read(name, range) };
    },
  };
}

async function* digested(source: AsyncIterable<Uint8Array>, digest: ArtifactDigest): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    digest.add(chunk);
    yield chunk;
  }
}

/** The stream in chunks of `CHUNK_BYTES`. Their buffer is reused, so a chunk is valid until the next one is requested. */
async function* rechunked(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  let filled = 0;
  for await (const chunk of source) {
    for (let from = 0; from < chunk.length; ) {
      const taken = chunk.subarray(from, from + CHUNK_BYTES - filled);
      buffer.set(taken, filled);
      from += taken.length;
      filled += taken.length;
      if (filled === CHUNK_BYTES) {
        yield buffer;
        filled = 0;
      }
    }
  }
  if (filled > 0) yield buffer.subarray(0, filled);
}

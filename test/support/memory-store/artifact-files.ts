import { ArtifactDigest } from '../../../src/store/artifact-digest.ts';
import type { ArtifactFiles, ByteRange } from '../../../src/store/contract/artifact-files.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { references } from './columns.ts';
import type { Session } from './session.ts';

const CHUNK_BYTES = 256 * 1024;

/** Artifacts in memory: each is stored as a whole when it is complete. */
export const memoryArtifactFiles = (session: Session): ArtifactFiles => {
  async function* read(name: string, { start, end }: ByteRange): AsyncGenerator<Uint8Array> {
    for (let at = start; at <= end; ) {
      const to = Math.min(at + CHUNK_BYTES, end + 1);
      const chunk = await session.read('artifactFiles.read', [name, at, to], (tables, name, at, to) =>
        tables.artifactContents.get(name)?.slice(at, to),
      );
      if (chunk === undefined) throw new StoreUnavailable('the artifact was removed');
      at += chunk.length;
      yield chunk;
    }
  }

  return {
    async write(name, source, maxBytes) {
      const digest = new ArtifactDigest(maxBytes);
      const chunks: Uint8Array[] = [];
      for await (const chunk of source) {
        digest.add(chunk);
        chunks.push(Uint8Array.from(chunk));
      }
      const content: Uint8Array = Buffer.concat(chunks);
      await session.write('artifactFiles.write', [name, content], (tables, name, content) => {
        references(tables.artifacts.has(name), 'artifact_chunks_artifact_fkey');
        tables.artifactContents.set(name, content);
      });
      return digest.finish();
    },

    async open(name) {
      const bytes = await session.read(
        'artifactFiles.open',
        [name],
        (tables, name) => tables.artifactContents.get(name)?.length,
      );
      return bytes === undefined ? null : { bytes, read: (range) => read(name, range) };
    },

    remove: (name) =>
      session.write('artifactFiles.remove', [name], (tables, name) => {
        tables.artifactContents.delete(name);
      }),
  };
};

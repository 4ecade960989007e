import { join } from 'node:path';
import type { Config } from '../config.ts';
import { makeUrlSigner } from '../domain/signed-url.ts';
import { type ArtifactParts, type Artifacts, makeArtifacts } from '../services/artifacts.ts';
import { artifactFolder } from '../store/artifact-folder.ts';
import type { Store } from '../store/contract.ts';
import { masterKeysOf } from './master-keys.ts';

interface Parts extends Omit<ArtifactParts, 'files' | 'signer'> {
  store: Pick<Store, 'artifactFiles' | 'firmware'>;
}

/**
 * Opens the firmware artifacts in `DATA_DIR` or in the database, by `ARTIFACT_STORE`; their URLs are signed with a key
 * derived from the master key.
 */
export const openArtifacts = ({ artifactStore, dataDir, keys }: Config, parts: Parts): Artifacts =>
  makeArtifacts({
    ...parts,
    files: artifactStore === 'database' ? parts.store.artifactFiles : artifactFolder(join(dataDir, 'firmware')),
    signer: makeUrlSigner(masterKeysOf(keys)),
  });

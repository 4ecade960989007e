import { join } from 'node:path';
import type { Config } from '../config.ts';
import { makeUrlSigner } from '../domain/signed-url.ts';
import { type ArtifactParts, type Artifacts, makeArtifacts } from '../services/artifacts.ts';
import { artifactFolder } from '../store/artifact-folder.ts';

/** Opens the firmware artifacts in `DATA_DIR`; their URLs are signed with a key derived from the master key. */
export const openArtifacts = ({ dataDir, keys }: Config, parts: Omit<ArtifactParts, 'files' | 'signer'>): Artifacts =>
  makeArtifacts({
    ...parts,
    files: artifactFolder(join(dataDir, 'firmware')),
    signer: makeUrlSigner(keys.master.export(), keys.masterPrevious?.export()),
  });

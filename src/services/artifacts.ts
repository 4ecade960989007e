import { type Clock, elapsedOf } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import { MAX_ARTIFACT_BYTES } from '../domain/firmware.ts';
import type { Log } from '../domain/log.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import type { UrlSigner } from '../domain/signed-url.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import { type ArtifactFiles, ArtifactTooLarge, type StoredArtifact } from '../store/contract/artifact-files.ts';
import type { Artifact, FirmwareRelease } from '../store/contract/firmware.ts';
import type { Store } from '../store/contract.ts';

/** Uploaded firmware files: recorded in the store by name, served at signed URLs. */
export interface Artifacts extends SizeReporter {
  /** Stores an upload. It belongs to no release yet: the caller attaches it to one or discards it. */
  receive(tenantId: Uuid, upload: AsyncIterable<Uint8Array>): Promise<Outcome<Artifact & { checksum: string }>>;
  /** Removes a file that no longer belongs to a release; on failure `removeOrphans` removes it later. */
  discard(name: Uuid): Promise<void>;
  /**
   * Where a device fetches the release: a URL signed now and valid for one hour, or the external URL of the release.
   */
  urlOf(release: FirmwareRelease): string | null;
  /** Whether a URL of the release was signed by this service and has not expired. */
  isUrlValid(id: Uuid, expires: EpochMs, signature: string): boolean;
  /** Null if the content does not exist. */
  open(name: Uuid): Promise<StoredArtifact | null>;
  /** Removes files that a crash or a failed removal left behind. Several processes may do so at the same time. */
  removeOrphans(): Promise<void>;
}

/** The upload ended before it was complete. Thrown by the edge that streams it. */
export class UploadBroken extends Error {
  override name = 'UploadBroken';
}

export const URL_LIFE_MS = 3_600_000;
/** Concurrent uploads. */
const MAX_UPLOADS = 16;
const MAX_UPLOADS_OF_TENANT = 2;
/** No upload takes this long, so an older file without a release is an orphan. */
const ORPHAN_AFTER_MS = 3_600_000;

export interface ArtifactParts {
  clock: Clock;
  newId(): Uuid;
  files: ArtifactFiles;
  store: Pick<Store, 'firmware'>;
  signer: UrlSigner;
  settings: { apiBaseUrl: string };
  log: Log;
}

/** The signed path, without its root. */
const pathOf = (id: Uuid): string => `/firmware/${id}/artifact`;

export function makeArtifacts({ files, store, signer, settings, clock, newId, log }: ArtifactParts): Artifacts {
  const running: Uuid[] = [];
  /**
   * Uploads that this process began in the last hour, with the monotonic time of their beginning, oldest first. They are not
   * deleted as orphans, even if the clock was set forward since.
   */
  const recent = new Map<Uuid, Milliseconds>();
  const forgetOlder = (): void => {
    const now = elapsedOf(clock);
    for (const [name, since] of recent) {
      if (now - since <= ORPHAN_AFTER_MS) return;
      recent.delete(name);
    }
  };

  async function writeUpload(upload: AsyncIterable<Uint8Array>): ReturnType<Artifacts['receive']> {
    const name = newId();
    forgetOlder();
    recent.set(name, elapsedOf(clock));
    await store.firmware.beginArtifact(name, clock.now());
    try {
      const written = await files.write(name, upload, MAX_ARTIFACT_BYTES);
      if (written.bytes > 0) return done({ name, ...written });
      await discard(name);
      return refuse('VALIDATION_FAILED', 'The artifact is empty.');
    } catch (error) {
      await discard(name);
      if (error instanceof ArtifactTooLarge) return artifactTooLarge();
      if (error instanceof UploadBroken) return refuse('VALIDATION_FAILED', 'The upload was interrupted.');
      throw error;
    }
  }

  async function discard(name: Uuid): Promise<void> {
    try {
      recent.delete(name);
      await files.remove(name);
      await store.firmware.forgetArtifacts([name]);
    } catch (error) {
      log.warn({ err: error, artifact: name }, 'artifact removal failed; the orphan sweep will retry');
    }
  }

  return {
    async receive(tenantId, upload) {
      const own = running.filter((one) => one === tenantId).length;
      if (own >= MAX_UPLOADS_OF_TENANT || running.length >= MAX_UPLOADS) {
        return refuse('OVERLOADED', 'Too many uploads are running. Try again later.', { retryAfterS: 5 });
      }
      running.push(tenantId);
      return writeUpload(upload).finally(() => running.splice(running.indexOf(tenantId), 1));
    },
    discard,
    sizes: () => ({ uploads: running.length, uploads_recent: recent.size }),
    urlOf: ({ id, artifact, url }) =>
      artifact === null
        ? url
        : `${settings.apiBaseUrl}${pathOf(id)}?${signer.query(pathOf(id), clock.now() + URL_LIFE_MS)}`,
    isUrlValid: (id, expires, signature) => signer.verifies(pathOf(id), expires, signature) && clock.now() < expires,
    open: (name) => files.open(name),
    async removeOrphans() {
      forgetOlder();
      const orphans = await store.firmware.orphanedArtifacts(clock.now() - ORPHAN_AFTER_MS);
      for (const name of orphans) if (!recent.has(name)) await discard(name);
    },
  };
}

export const artifactTooLarge = () =>
  refuse('PAYLOAD_TOO_LARGE', `An artifact may have at most ${MAX_ARTIFACT_BYTES / 1024 / 1024} MiB.`);

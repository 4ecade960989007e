import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeUrlSigner } from '../../src/domain/signed-url.ts';
import type { Uuid } from '../../src/domain/values.ts';
import { makeArtifacts } from '../../src/services/artifacts.ts';
import { artifactFolder } from '../../src/store/artifact-folder.ts';
import type { ArtifactFiles } from '../../src/store/contract/artifact-files.ts';
import type { Store } from '../../src/store/contract.ts';
import { newId } from '../support/actor-commits.ts';
import { testClock } from '../support/clock.ts';
import { eachStore } from '../support/store.ts';

const HOUR_MS = 3_600_000;
const ORPHANS = 12;

async function* content(): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(300_000, 1);
}

/** Two processes on the same store. */
function twoProcesses(store: Store, files: ArtifactFiles, clock = testClock(Date.now())) {
  const warnings: string[] = [];
  const log = { debug() {}, info() {}, warn: (_: object, message: string) => void warnings.push(message), error() {} };
  const signer = makeUrlSigner({ current: randomBytes(32) });
  const parts = { clock, newId, files, store, signer, settings: { apiBaseUrl: '' }, log };
  return { clock, warnings, both: [makeArtifacts(parts), makeArtifacts(parts)] as const };
}

async function receive(artifacts: ReturnType<typeof makeArtifacts>): Promise<Uuid> {
  const received = await artifacts.receive(newId(), content());
  if (!received.ok) throw new Error(received.refusal.detail);
  return received.value.name;
}

const root = mkdtempSync(join(tmpdir(), 'twinkeep-artifacts-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

eachStore('two processes', (backend) => {
  describe.each([
    { kind: 'a folder', filesOf: () => artifactFolder(join(root, newId())) },
    { kind: 'the database', filesOf: ({ artifactFiles }: Store) => artifactFiles },
  ])('with artifacts in $kind', ({ filesOf }) => {
    it('that remove orphans at the same time remove each of them, and nothing else', async () => {
      const { store } = backend();
      const files = filesOf(store);
      const { both, clock, warnings } = twoProcesses(store, files);
      const [one, two] = both;
      const names: Uuid[] = [];
      for (let n = 0; n < ORPHANS; n++) names.push(await receive(n % 2 === 0 ? one : two));
      const used = await receive(one);
      await store.firmware.insert({
        ...{ id: newId(), tenantId: newId(), deviceType: 'smart_light', version: '1.0.0', notes: null, url: null },
        ...{ status: 'draft', rolloutPercent: 100, checksum: 'a'.repeat(64), createdAt: 1, releasedAt: null },
        ...{ artifact: { name: used, bytes: 300_000 }, size: 300_000, signature: null, signatureKeyId: null },
        releasedBy: null,
      });
      clock.advance(HOUR_MS + 1);
      const young = await receive(two);
      await Promise.all([one.removeOrphans(), two.removeOrphans(), one.removeOrphans()]);
      expect(warnings).toEqual([]);
      for (const name of names) expect(await files.open(name)).toBeNull();
      expect(await store.firmware.orphanedArtifacts(Number.MAX_SAFE_INTEGER)).toEqual([young]);
      for (const name of [used, young]) expect(await two.open(name)).toMatchObject({ bytes: 300_000 });
      await one.discard(young);
    });
  });
});

eachStore('a clock that is set forward by hours', (backend) => {
  it('makes no orphan of an upload in progress, nor of one that was just received', async () => {
    const { store } = backend();
    const files = artifactFolder(join(root, newId()));
    let elapsed = 0;
    const clock = Object.assign(testClock(Date.now()), { elapsed: () => elapsed });
    const [artifacts] = twoProcesses(store, files, clock).both;
    const received = await receive(artifacts);
    async function* interrupted(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(1_000, 1);
      clock.advance(2 * HOUR_MS);
      await artifacts.removeOrphans();
      yield Buffer.alloc(1_000, 1);
    }
    const uploaded = await artifacts.receive(newId(), interrupted());
    if (!uploaded.ok) throw new Error(uploaded.refusal.detail);
    const names = [received, uploaded.value.name];
    for (const name of names) expect(await files.open(name)).not.toBeNull();
    elapsed = HOUR_MS + 1;
    await artifacts.removeOrphans();
    for (const name of names) expect(await files.open(name)).toBeNull();
    expect(artifacts.sizes()).toEqual({ uploads: 0, uploads_recent: 0 });
  });
});

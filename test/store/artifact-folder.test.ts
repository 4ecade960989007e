import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { artifactFolder } from '../../src/store/artifact-folder.ts';

const root = mkdtempSync(join(tmpdir(), 'twinkeep-artifacts-'));
const folder = join(root, 'data', 'firmware');
const files = artifactFolder(folder);
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

describe('an artifact in a folder', () => {
  it('is readable by its owner only, in a folder that is created for it', async () => {
    await files.write('one', chunks('ab', '', 'c'), 3);
    const path = join(folder, 'one');
    expect(readFileSync(path, 'utf8')).toBe('abc');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  it('has no final name until it is complete', async () => {
    let seen: string[] = [];
    async function* looking() {
      yield Buffer.from('a');
      seen = readdirSync(folder).filter((name) => name.startsWith('two'));
      yield Buffer.from('b');
    }
    await files.write('two', looking(), 9);
    expect(seen).toEqual(['two.part']);
    expect(existsSync(join(folder, 'two'))).toBe(true);
    await files.remove('two');
    expect(readdirSync(folder)).toEqual(['one']);
  });

  it('that is too large, or whose source fails, leaves no file', async () => {
    await expect(files.write('big', chunks('ab', 'cd'), 3)).rejects.toMatchObject({ name: 'ArtifactTooLarge' });
    async function* failing() {
      yield Buffer.from('a');
      throw new Error('broken off');
    }
    await expect(files.write('half', failing(), 9)).rejects.toThrow('broken off');
    expect(readdirSync(folder)).toEqual(['one']);
  });

  it('never overwrites another', async () => {
    writeFileSync(join(folder, 'busy.part'), '');
    await expect(files.write('busy', chunks('x'), 9)).rejects.toMatchObject({ name: 'StoreUnavailable' });
  });
});

/** The part of a file handle that the module uses. */
interface Writer {
  write(bytes: Uint8Array, from?: number, length?: number): Promise<{ bytesWritten: number }>;
}

describe('a disk', () => {
  it('that cannot be written is reported as an unavailable store', async () => {
    writeFileSync(join(root, 'file'), '');
    const nowhere = artifactFolder(join(root, 'file'));
    await expect(nowhere.write('x', chunks('x'), 9)).rejects.toMatchObject({ name: 'StoreUnavailable' });
    expect(await nowhere.open('x')).toBeNull();
  });

  it('that cannot be read is reported as an unavailable store', async () => {
    mkdirSync(join(folder, 'a-folder'));
    const opened = await files.open('a-folder');
    const read = async () => {
      for await (const chunk of opened?.read({ start: 0, end: 9 }) ?? []) expect(chunk).toBeUndefined();
    };
    await expect(read()).rejects.toMatchObject({
      name: 'StoreUnavailable',
      message: expect.stringContaining('EISDIR'),
    });
    rmSync(join(folder, 'a-folder'), { recursive: true });
  });

  it('that is full keeps no file, and is tried again later', async () => {
    const small = artifactFolder(join(root, 'full'));
    const handle = await open(join(root, 'any'), 'w');
    const kind = Object.getPrototypeOf(handle) as Writer;
    await handle.close();
    let left = 1_048_576;
    const { write } = kind;
    // As an operating system does: the last write is partial, and the next one fails.
    const full = vi.spyOn(kind, 'write').mockImplementation(async function (this: Writer, bytes, from = 0) {
      const room = Math.min(bytes.length - from, left);
      if (room === 0) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
      left -= room;
      return await write.call(this, bytes, from, room);
    });
    const large = () => chunks(...Array.from({ length: 32 }, () => 'x'.repeat(65_536)));
    const refused = { name: 'StoreUnavailable', message: expect.stringContaining('ENOSPC') };
    await expect(small.write('x', large(), 9_999_999)).rejects.toMatchObject(refused);
    expect(left).toBe(0);
    expect(readdirSync(join(root, 'full'))).toEqual([]);
    full.mockRestore();
    expect(await small.write('x', chunks('fits'), 9)).toMatchObject({ bytes: 4 });
  });
});

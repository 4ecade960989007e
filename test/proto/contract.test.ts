import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buf } from '../support/buf.ts';

const root = new URL('../../', import.meta.url).pathname;
let copy: string;

beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), 'twinkeep-proto-'));
  for (const part of ['proto', 'buf.yaml', 'buf.gen.yaml'])
    cpSync(join(root, part), join(copy, part), { recursive: true });
});
afterEach(() => rmSync(copy, { recursive: true, force: true }));

const runtime = () => join(copy, 'proto/cognition/v1/runtime.proto');
const change = (from: string, to: string) => {
  const text = readFileSync(runtime(), 'utf8');
  expect(text).toContain(from);
  writeFileSync(runtime(), text.replace(from, to));
};
const breaking = () => buf(['breaking', '--against', 'proto/released.binpb'], { cwd: copy });

describe("the sidecar's contract", () => {
  it('documents every message and field, with names in the required style', async () => {
    expect(await buf(['lint'])).toMatchObject({ code: 0, stdout: '' });
  });

  it('is formatted as buf formats it', async () => {
    expect(await buf(['format', '--exit-code', '--diff'])).toMatchObject({ code: 0, stdout: '' });
  });

  it('with an undocumented field is rejected', async () => {
    change('  // The node.\n  GraphNode node = 1;', '  GraphNode node = 1;');
    expect(await buf(['lint'], { cwd: copy })).toMatchObject({ code: 100, stdout: expect.stringContaining('"node"') });
  });

  it('is compatible with clients of the released contract', async () => {
    expect(await breaking()).toMatchObject({ code: 0, stdout: '' });
  });

  it('with a changed or removed field is rejected', async () => {
    change('uint32 for_s = 2;', 'string for_s = 2;');
    expect(await breaking()).toMatchObject({ code: 100, stdout: expect.stringContaining('"for_s"') });
    change('  // Maximum duration, 1 to 3,600 seconds; 0: 300.\n  string for_s = 2;\n', '');
    expect(await breaking()).toMatchObject({ code: 100, stdout: expect.stringContaining('"for_s"') });
  });

  it('with a new field is accepted', async () => {
    change('uint32 for_s = 2;', 'uint32 for_s = 2;\n  // Nothing.\n  string more = 3;');
    expect(await breaking()).toMatchObject({ code: 0, stdout: '' });
  });

  it('is the source of the checked-in generated code', async () => {
    const folder = 'proto/gen/cognition/v1';
    rmSync(join(copy, 'proto/gen'), { recursive: true });
    expect(await buf(['generate'], { cwd: copy })).toMatchObject({ code: 0 });
    expect(readdirSync(join(copy, folder))).toEqual(readdirSync(join(root, folder)));
    for (const name of readdirSync(join(root, folder)))
      expect(readFileSync(join(copy, folder, name), 'utf8')).toBe(readFileSync(join(root, folder, name), 'utf8'));
  });
});

import { describe, expect, it } from 'vitest';
import type { ManifestRecord } from '../../../console/src/devices/manifest.tsx';
import {
  draftOf,
  type ManifestDraft,
  readDraft,
  withClass,
  withoutAction,
} from '../../../console/src/devices/manifest-draft.ts';
import { automaticManifest } from '../../../src/domain/capability-registry.ts';

const manifest = (category: string | null, ...capabilities: object[]): ManifestRecord =>
  ({ deviceId: 'd', tenantId: 't', category, version: 3, capabilities }) as ManifestRecord;
const read = (text: string): ManifestDraft => {
  const draft = readDraft(text);
  if (draft === null) throw new Error('not a manifest');
  return draft;
};
const gate = { action: 'open_gate', safetyClass: 'CRITICAL' };
const text = JSON.stringify({
  category: 'cover',
  capabilities: [gate, { action: 'wave' }, 7, { safetyClass: 'NORMAL' }],
});

describe('the draft of a manifest', () => {
  it('has what can be published: no ids, no version, and no internal actions', () => {
    expect(JSON.parse(draftOf(manifest('cover', { id: 1, ...gate })))).toEqual({
      category: 'cover',
      capabilities: [gate],
    });
    const properties = { level: { label: 'Water', history: 'change' } };
    expect(JSON.parse(draftOf({ ...manifest(null), properties } as ManifestRecord))).toEqual({
      ...{ capabilities: [], properties },
    });
    expect(JSON.parse(draftOf(manifest(null)))).toEqual({ capabilities: [] });
    expect(JSON.parse(draftOf(null))).toEqual({ capabilities: [] });
    const lock = automaticManifest({ deviceId: 'd', tenantId: 't', deviceType: 'lock' }) as unknown as ManifestRecord;
    const names = JSON.parse(draftOf(lock)).capabilities.map(({ action }: { action: string }) => action);
    expect(names).toContain('unlock');
    expect(names).not.toContain('revoke');
  });

  it('lists the actions of the text, also of an unfinished one', () => {
    expect(read(text).actions).toEqual([gate, { action: 'wave', safetyClass: null }, null, null]);
    expect(read('{"capabilities": [{"action": "a", "safetyClass": "HIGH"}]}').actions[0]?.safetyClass).toBeNull();
    for (const unfinished of ['', '{', '[]', '{}', '{"capabilities": {}}']) expect(readDraft(unfinished)).toBeNull();
  });

  it('changes one class or removes one action, and nothing else', () => {
    const { capabilities, ...rest } = JSON.parse(withClass(read(text), 1, 'RESTRICTED'));
    expect(rest).toEqual({ category: 'cover' });
    expect(capabilities).toEqual([gate, { action: 'wave', safetyClass: 'RESTRICTED' }, 7, { safetyClass: 'NORMAL' }]);
    expect(JSON.parse(withClass(read(text), 0, null)).capabilities[0]).toEqual({ action: 'open_gate' });
    expect(JSON.parse(withoutAction(read(text), 0)).capabilities).toEqual([
      { action: 'wave' },
      7,
      { safetyClass: 'NORMAL' },
    ]);
  });
});

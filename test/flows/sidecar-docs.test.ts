import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rulesPlanner } from '../../sidecar/rules/planner.ts';
import * as flat from '../sidecar/world-fixtures.ts';
import { codeBlock, readDocument, testDocument } from '../support/documented-session.ts';
import { RecordingDevices, submitGoal, waitForPlan } from '../support/recording-devices.ts';
import { startService, type TestService } from '../support/service.ts';
import { type SidecarProcess, sidecarProcess } from '../support/sidecar-process.ts';

const path = 'docs/sidecar.md';
const page = readDocument(path);
const root = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

testDocument(path, {
  env: { SIDECAR: 'embedded' },
  isReady: ({ services }) => services.sidecar.connected(),
});

describe('the sidecar documentation', () => {
  let folder: string;
  let sidecar: SidecarProcess;
  let at: TestService;
  const home = new RecordingDevices();
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'twinkeep-page-'));
    // As after the `npm install` in the documentation.
    symlinkSync(root('node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, 'sidecar.mjs'), codeBlock(page, 'js'));
    sidecar = await sidecarProcess(join(folder, 'sidecar.mjs'), { PROTO_DIR: root('proto') });
    await sidecar.start();
    at = await startService({ SIDECAR: 'external', SIDECAR_ADDRESS: sidecar.address });
  });
  afterAll(async () => {
    await home.close();
    await at.stop();
    await sidecar.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  it('has a working sidecar in plain JavaScript that plans from the contract alone', async () => {
    const owner = await at.owner();
    for (const name of ['A', 'B']) await home.addLight(owner, name);
    await home.addDoorLock(owner, 'Door');
    const done = await waitForPlan(owner, await submitGoal(owner, 'Everything off, please'), 'succeeded');
    expect([...home.actions].sort()).toEqual(['A off', 'B off']);
    expect(done.cognition.summary).toBe('Everything is off.');

    home.broken.add('B');
    const undone = await waitForPlan(owner, await submitGoal(owner, 'everything off'), 'rolled_back');
    expect(undone.steps.map(({ status }: { status: string }) => status).sort()).toEqual(['compensated', 'failed']);

    const odd = await waitForPlan(owner, await submitGoal(owner, 'dance'), 'failed');
    expect(odd.cognition.error).toEqual({ code: 'NOT_UNDERSTOOD', detail: 'I only know “everything off”.' });
    const seen = await owner.post('/v1/cognition/observation', { device_id: home.ids.get('A'), data: { smoke: true } });
    expect(seen.status).toBe(202);
  });

  it('has example sentences that the rules understand', async () => {
    const sentences = [
      'turn off the lights; then lock the front door',
      'Good night',
      'lights off',
      'it is too cold in the living room',
    ];
    for (const text of sentences) {
      expect(page.toLowerCase()).toContain(text.toLowerCase().replace(' the living room', ''));
      expect(await rulesPlanner.decide(flat.goal(text), new AbortController().signal)).toHaveProperty('steps');
    }
  });
});

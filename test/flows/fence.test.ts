import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { eventually } from '../support/clock.ts';
import { connect, register } from '../support/device.ts';
import type { ApiResponse } from '../support/service.ts';
import {
  type Outcome,
  outcomeOf,
  quickLock,
  resumeProcess,
  suspendProcess,
  type TwoProcesses,
  twoProcesses,
} from '../support/two-processes.ts';
import { writesByEpoch } from '../support/write-oracle.ts';

const START_MS = 30_000;
/** Between two commands, so that the processes have most of the processor. */
const PACE_MS = 20;

/** The old owner wrote first, then the new one; no process wrote while another one was the owner. */
async function expectOneWriterAtATime(url: string): Promise<void> {
  const epochs = await writesByEpoch(url);
  expect(epochs).toMatchObject([
    { epoch: 1, violations: [] },
    { epoch: 2, violations: [] },
  ]);
}

describe.runIf(inject('postgresUrl'))('a process that lost its lease', { timeout: START_MS }, () => {
  let both: TwoProcesses;
  let light: ApiResponse['body'];
  let device: Device;
  let commands: number;

  beforeEach(async () => {
    both = await twoProcesses();
    light = await register(both.atFirst);
    commands = 0;
    device = await connect(light, { commands: { turn_on: () => undefined } });
    device.on('command', () => {
      commands += 1;
    });
    expect(await device.report({ n: 1 })).toBe(true);
  }, START_MS);
  afterEach(async () => {
    await device.close(0);
    await both.close();
  }, START_MS);

  const command = () => both.atFirst.post(`/v1/device/${light.device_id}/command`, { action: 'turn_on' });
  const ended = () => expect(both.first.exited).resolves.toMatchObject({ code: 1 });
  /** Reads and writes at the first process, from memory, caches and the database. */
  const askFirst = (): Promise<Outcome[]> =>
    Promise.all(
      [
        both.atFirst.get('/v1/auth/me'),
        both.atFirst.get(`/v1/devices/${light.device_id}`),
        both.atFirst.get('/v1/homes'),
        command(),
        both.atFirst.post('/v1/homes', { home_name: 'Late' }),
      ].map(outcomeOf),
    );

  it('answers and writes nothing when it resumes, after its connections were closed', async () => {
    expect((await command()).status).toBe(202);
    await eventually(() => commands === 1);
    suspendProcess(both.first.pid);
    const requested = askFirst();
    const reported = device.report({ n: 2 });
    await both.second.active;
    const revoked = await both.atSecond.post(`/v1/device/${light.device_id}/revoke`, {});
    expect(revoked.status).toBe(200);
    resumeProcess(both.first.pid);
    await ended();
    expect(await requested).toEqual([null, null, null, null, null]);
    await device.close(0);
    expect(await reported).toBe(false);
    expect(commands).toBe(1);
    await expectOneWriterAtATime(both.databaseUrl);
  });

  it('answers and writes nothing when it resumes, after the network dropped its connections', async () => {
    const key = (await both.atFirst.post('/v1/auth/api-keys', { name: 'leaked', scopes: ['all'] })).body;
    suspendProcess(both.first.pid);
    expect(both.proxy.freeze()).toBeGreaterThan(1);
    const requested = askFirst();
    const revocations = [
      both.atFirst.post('/v1/auth/api-keys/revoke', { prefix: key.prefix }),
      both.atFirst.post(`/v1/device/${light.device_id}/revoke`, { reason: 'stolen' }),
    ].map(outcomeOf);
    const reported = device.report({ n: 2 });
    await both.second.active;
    resumeProcess(both.first.pid);
    await ended();
    expect(await requested).toEqual([null, null, null, null, null]);
    expect(await Promise.all(revocations)).toEqual([null, null]);
    await device.close(0);
    expect(await reported).toBe(false);
    const shown = await both.atSecond.get(`/v1/devices/${light.device_id}`);
    expect(shown.body.device).toMatchObject({ revoked: false, state: { n: 1 } });
    expect((await both.atSecond.post('/v1/homes', { home_name: 'Next' })).status).toBe(201);
    await expectOneWriterAtATime(both.databaseUrl);
  });

  it('answers and writes nothing after a pause longer than its lease, but shorter than its lock session', async () => {
    suspendProcess(both.first.pid);
    const stoppedAt = performance.now();
    expect(both.proxy.freeze('active lock')).toBe(1);
    const requested = askFirst();
    await eventually(() => performance.now() - stoppedAt > quickLock.lease);
    resumeProcess(both.first.pid);
    await ended();
    expect(await requested).toEqual([null, null, null, null, null]);
    await both.second.active;
    expect((await both.atSecond.post('/v1/homes', { home_name: 'Next' })).status).toBe(201);
    await expectOneWriterAtATime(both.databaseUrl);
  });

  it('ends before another one becomes active if only the connection of its lock is dropped', async () => {
    const accepted: string[] = [];
    let over = false;
    void both.first.exited.then(() => {
      over = true;
    });
    expect(both.proxy.freeze('active lock')).toBe(1);
    while (!over) {
      const answer = await command().catch(() => null);
      if (answer?.status === 202) accepted.push(answer.body.command_id);
      await pause(PACE_MS);
    }
    await ended();
    expect(accepted.length).toBeGreaterThan(0);
    await both.second.active;
    for (const id of accepted.slice(-20)) expect((await both.atSecond.get(`/v1/commands/${id}`)).status).toBe(200);
    expect((await both.atSecond.post('/v1/homes', { home_name: 'Next' })).status).toBe(201);
    await expectOneWriterAtATime(both.databaseUrl);
  });
});

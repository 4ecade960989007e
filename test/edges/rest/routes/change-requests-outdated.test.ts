import { v7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Quarantined } from '../../../../src/actors/contract.ts';
import type { ChangeRequest } from '../../../../src/domain/change-request.ts';
import { changeDigest } from '../../../../src/operations/changes/confirmed-change.ts';
import { DataRefused } from '../../../../src/store/contract.ts';
import { eventually } from '../../../support/clock.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';
import {
  approve,
  coded,
  confirm,
  device,
  gate,
  lower,
  manifest,
  percent,
  put,
  refuse,
  show,
  waiting,
  withGate,
} from '../weaker-manifest.ts';

// Which refusals of a confirmation end the change request, and which leave it waiting.

withTwoTenants();
withGate();

afterEach(() => {
  vi.restoreAllMocks();
});

/** Runs before the next commit of the device, which fails if this does. */
const beforeNextCommit = (run: () => Promise<void>) => {
  const { actors } = service.store;
  const commit = actors.commit.bind(actors);
  const spy = vi.spyOn(actors, 'commit').mockImplementation(async (commits, ...options) => {
    if (commits.some(({ ref }) => ref.id === device)) {
      spy.mockRestore();
      await run();
    }
    return commit(commits, ...options);
  });
};

describe('a change request for a manifest', () => {
  it('ends as outdated if the manifest was changed after the preview', async () => {
    const requested = await lower();
    expect((await put([gate(percent(40)), { action: 'wave' }])).status).toBe(200);
    expect(coded(await confirm(requested.change_id, requested.dry_run_token))).toEqual([409, 'CONFLICT']);
    expect(await show(requested.change_id)).toMatchObject({ status: 'outdated' });
    expect(coded(await approve(requested.change_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect((await manifest()).capabilities[0].safetyClass).toBe('CRITICAL');
  });

  describe('keeps waiting if its confirmation fails although the manifest is the same:', () => {
    /** A stored request like that of `lower`, as another build would have made it. */
    const ofAnotherBuild = async (differences: (made: ChangeRequest) => Partial<ChangeRequest>) => {
      const { change_id } = await lower();
      const made = (await service.store.changeRequests.find(change_id)) as ChangeRequest;
      const changed = { ...made, id: v7(), ...differences(made) };
      // As another requester, so that it does not replace the other request.
      const token = await service.member(mine.tenantId, 'admin');
      const { user } = (await service.call('GET', '/v1/auth/me', { token })).body;
      const requestedBy = { ...made.requestedBy, id: user.id };
      const request = { ...changed, requestedBy, digest: changeDigest({ ...changed, requestedBy }) };
      const inserted = await service.store.changeRequests.insert(request, { own: 1, all: 200 }, { by: requestedBy });
      expect(inserted).toBe('inserted');
      return changed.id;
    };
    const waits = async (id: string) => (await show(id)).status === 'awaiting_confirmation';

    it('with a preview that this build would not make', async () => {
      const preview = { weaker: ['The gate gets weaker.'], changes: {} };
      const id = await ofAnotherBuild(() => ({ preview }));
      const answer = await approve(id);
      expect([...coded(answer), answer.body.detail]).toEqual([
        ...[409, 'CONFLICT'],
        'This node or version cannot apply the change now. The request still waits: confirm it again later, or refuse it.',
      ]);
      expect([await waits(id), (await manifest()).version]).toEqual([true, 1]);
      expect((await refuse(id)).status).toBe(200);
    });

    it('with an input that this build refuses', async () => {
      const id = await ofAnotherBuild(({ input }) => ({ input: { ...input, revision: 'b' } }));
      expect([coded(await approve(id)), await waits(id)]).toEqual([[409, 'CONFLICT'], true]);
    });

    it('at a node whose actor is behind the store', async () => {
      const { change_id: id } = await lower();
      vi.spyOn(service.services.manifests, 'load').mockResolvedValueOnce(new Map());
      expect([coded(await approve(id)), await waits(id)]).toEqual([[409, 'CONFLICT'], true]);
      expect((await approve(id)).status).toBe(200);
    });

    it('with an event that the store rejects', async () => {
      const { change_id: id } = await lower();
      beforeNextCommit(() => Promise.reject(new DataRefused('22P05', 'rejected')));
      expect([coded(await approve(id)), await waits(id)]).toEqual([[500, 'INTERNAL'], true]);
      expect((await approve(id)).status).toBe(200);
    });
  });

  it('is not applied if another process has refused it in the meantime', async () => {
    const { change_id: id } = await lower();
    const { requestedBy: decidedBy } = (await service.store.changeRequests.find(id)) as ChangeRequest;
    beforeNextCommit(async () => {
      const decidedAt = service.clock.now();
      await service.store.changeRequests.end(id, { status: 'refused', reason: null, decidedBy, decidedAt });
    });
    const answer = await approve(id);
    expect([...coded(answer), answer.body.detail]).toEqual([
      ...[409, 'ILLEGAL_TRANSITION', 'The change is refused, not awaiting confirmation.'],
    ]);
    expect([(await show(id)).status, (await manifest()).version]).toEqual(['refused', 1]);
  });
});

describe('a critical change request', () => {
  let key: string;
  beforeEach(async () => {
    await mine.call('PATCH', '/tenant/policy', { confirm_by: 'person' });
    key = (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes: ['all'] })).body.key;
  });

  const draft = async () => {
    const artifact = { url: 'https://firmware.example.com/light.bin', checksum: 'ab'.repeat(32) };
    return (await mine.call('POST', '/firmware/release', { device_type: 'lamp', version: '1.0.0', ...artifact })).body
      .id;
  };
  const requestRelease = async (id: string) =>
    (await mine.call('POST', `/firmware/${id}/release`, {}, { token: key })).body.change_id;
  const status = async (id: string) => (await show(id)).status;

  it('keeps waiting after a conflict that can be resolved, and is applied then', async () => {
    await mine.call('POST', `/device/${device}/revoke`, {});
    const asked = await mine.call('POST', `/device/${device}/reinstate`, { reason: 'Found' }, { token: key });
    const { actors } = service.services;
    const send = actors.send.bind(actors);
    vi.spyOn(service.store.commands, 'open').mockResolvedValueOnce([device]);
    vi.spyOn(actors, 'send').mockImplementation((ref, ...rest) =>
      ref.kind === 'command' ? Promise.reject(new Quarantined('it failed')) : send(ref, ...rest),
    );
    const refused = await approve(asked.body.change_id);
    expect([...coded(refused), refused.body.detail]).toEqual([
      ...[409, 'CONFLICT', expect.stringContaining('Release it (POST /v1/actors/command/')],
    ]);
    expect(await status(asked.body.change_id)).toBe('awaiting_confirmation');
    const applied = await approve(asked.body.change_id);
    expect([applied.status, applied.body.result.status]).toEqual([200, 'active']);
  });

  it('ends if its release was withdrawn', async () => {
    const id = await draft();
    const change = await requestRelease(id);
    await mine.call('POST', `/firmware/${id}/withdraw`);
    expect(coded(await approve(change))).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect(await status(change)).toBe('outdated');
    expect(await waiting()).toEqual([]);
  });

  it('is not applied if it was requested again while its confirmation waited', async () => {
    const id = await draft();
    const change = await requestRelease(id);
    const { locks } = service.services;
    const lock = `firmware:${id}`;
    let release = () => {};
    const held = locks.exclusive(lock, () => new Promise<void>((resolve) => (release = resolve)));
    const spy = vi.spyOn(locks, 'exclusive');
    const queued = (count: number) =>
      eventually(() => spy.mock.calls.filter(([name]) => name === lock).length === count);
    const again = requestRelease(id);
    await queued(1);
    const approval = approve(change);
    await queued(2);
    release();
    await held;
    const renewed = await again;
    expect(coded(await approval)).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect([await status(change), await status(renewed)]).toEqual(['outdated', 'awaiting_confirmation']);
    expect((await mine.call('GET', `/firmware/${id}`)).body.release.status).toBe('draft');
  });

  it('ends if its subject is gone', async () => {
    const change = await requestRelease(await draft());
    vi.spyOn(service.store.firmware, 'find').mockResolvedValueOnce(null);
    expect(coded(await approve(change))).toEqual([404, 'NOT_FOUND']);
    expect(await status(change)).toBe('outdated');
  });
});

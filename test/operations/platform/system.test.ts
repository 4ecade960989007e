import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseChangelog, runningVersionFirst } from '../../../src/domain/changelog.ts';
import { SERVICE_VERSION } from '../../../src/operations/platform/system.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
beforeEach(async () => {
  service = await startHttpService();
});
afterEach(() => service.close());

const get = async (path: string) => {
  const { status, headers, body } = await service.call('GET', path);
  return { status, type: headers.get('content-type'), body };
};

describe('health', () => {
  it('reports every part, and disabled ones as disabled', async () => {
    expect(await get('/health')).toEqual({
      status: 200,
      type: 'application/json',
      body: {
        status: 'ok',
        timestamp: new Date(service.clock.now()).toISOString(),
        services: {
          api: { status: 'operational' },
          database: { status: 'operational' },
          redis: { status: 'operational' },
          mqtt: { status: 'operational' },
          worker: { status: 'operational' },
          build_service: { status: 'disabled' },
          cloud_editor: { status: 'disabled' },
        },
        metrics: { active_devices: 0 },
      },
    });
  });

  it('is degraded when a part is, in the shape of the specification', async () => {
    service.store.reachable = false;
    service.state.mqtt = 'degraded';
    expect(await get('/health')).toEqual({
      status: 503,
      type: 'application/json',
      body: {
        status: 'degraded',
        checks: { api: true, database: false, redis: true, mqtt: false, worker: true },
      },
    });
  });

  it('is what /status reports, also in maintenance', async () => {
    expect((await get('/status')).body.status).toBe('operational');
    await service.services.setFlag('maintenance_mode', true);
    expect((await get('/status')).body.status).toBe('maintenance');
    service.state.mqtt = 'degraded';
    service.clock.advance(1_000);
    expect([(await get('/health')).status, (await get('/status')).body.status]).toEqual([503, 'degraded']);
  });

  it('is not degraded by a disabled part', async () => {
    service.state.mqtt = 'disabled';
    const { status, body } = await get('/health');
    expect([status, body.services.mqtt.status]).toEqual([200, 'disabled']);
  });

  it('queries the store once a second for any number of requests', async () => {
    let pings = 0;
    service.store.ping = async () => void pings++;
    await Promise.all(Array.from({ length: 20 }, () => get('/health')));
    expect(pings).toBe(1);
    service.clock.advance(1_000);
    await get('/health');
    expect(pings).toBe(2);
  });

  it('counts active devices', async () => {
    const { token } = await service.owner();
    const { body: home } = await service.call('POST', '/v1/homes', { token, body: { home_name: 'Home' } });
    const device = { device_type: 'smart_light', home_id: home.id };
    await service.call('POST', '/v1/device/register', { token, body: device });
    expect((await get('/health')).body.metrics).toEqual({ active_devices: 1 });
  });

  it('is live while it responds', async () => {
    service.clock.advance(1_500);
    service.store.reachable = false;
    expect((await get('/health/live')).body).toEqual({ status: 'alive', uptime: 1.5 });
  });

  it('is ready when database and cache store are', async () => {
    expect(await get('/health/ready')).toMatchObject({ status: 200, body: { status: 'ready' } });
    service.state.mqtt = 'degraded';
    service.clock.advance(1_000);
    expect((await get('/health/ready')).status).toBe(200);
    service.state.cacheHealthy = false;
    service.clock.advance(1_000);
    expect(await get('/health/ready')).toEqual({
      status: 503,
      type: 'application/json',
      body: { status: 'degraded', checks: { database: true, cache: false } },
    });
  });
});

it('is not ready from the request to stop on, while it still accepts requests', async () => {
  service.state.stopping = true;
  expect(await get('/health/ready')).toMatchObject({ status: 503, body: { status: 'stopping' } });
  expect((await get('/health/live')).status).toBe(200);
  expect((await get('/status')).status).toBe(200);
});

it('reports status and version without a credential', async () => {
  expect((await get('/status')).body).toEqual({
    system: 'Twinkeep',
    status: 'operational',
    beta: false,
    version: '1.0.0',
    protocol: 'PROTO/3.0',
  });
  expect((await get('/v1/version')).body).toEqual({ version: '1.0.0', protocol: 'PROTO/3.0' });
  await service.flags.set('maintenance_mode', true);
  expect((await get('/status')).body.status).toBe('maintenance');
});

describe('the changelog', () => {
  it('starts with the running version, followed by unreleased changes and earlier versions', async () => {
    expect((await get('/changelog')).body).toEqual({
      entries: [
        { version: '1.0.0', date: '2026-01-01', changes: ['Added: everything'] },
        { version: 'Unreleased', date: null, changes: ['Added: something'] },
        { version: '0.9.0', date: '2025-12-01', changes: ['Added: a start'] },
      ],
    });
  });

  it('omits an unreleased section without changes', () => {
    const released = { version: '1.0.0', date: '2026-01-01', changes: [] };
    expect(runningVersionFirst([{ version: 'Unreleased', date: null, changes: [] }, released], '1.0.0')).toEqual([
      released,
    ]);
  });

  it('is parsed from the format of Keep a Changelog', () => {
    const text = `# Changelog

All notable changes.

## [Unreleased]

### Added

- One thing
  that takes two lines.
* Another.

### Fixed
- A bug.

## [1.1.0] - 2026-02-01
- Without a section.

## 1.0.0 - 2026-01-01
[1.1.0]: https://example.com
`;
    expect(parseChangelog(text.replaceAll('\n', '\r\n'))).toEqual([
      {
        version: 'Unreleased',
        date: null,
        changes: ['Added: One thing that takes two lines.', 'Added: Another.', 'Fixed: A bug.'],
      },
      { version: '1.1.0', date: '2026-02-01', changes: ['Without a section.'] },
      { version: '1.0.0', date: '2026-01-01', changes: [] },
    ]);
  });

  it('of this project has a dated entry for the version that the service reports, and only sections of the format', async () => {
    const { version } = JSON.parse(await readFile('package.json', 'utf8'));
    expect(SERVICE_VERSION).toBe(version);
    const entries = runningVersionFirst(parseChangelog(await readFile('CHANGELOG.md', 'utf8')), SERVICE_VERSION);
    expect(entries[0]).toEqual({
      version,
      date: expect.stringMatching(/^\d{4}-\d{2}-\d{2}$/),
      changes: expect.arrayContaining([expect.stringMatching(/^Added: /)]),
    });
    const section = /^(?:Added|Changed|Deprecated|Removed|Fixed|Performance|Security): \S/;
    for (const { changes } of entries) for (const change of changes) expect(change).toMatch(section);
  });
});

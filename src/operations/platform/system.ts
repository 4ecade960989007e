import { z } from 'zod';
import { runningVersionFirst } from '../../domain/changelog.ts';
import { referenceOf } from '../../domain/clock.ts';
import { iso } from '../../domain/iso-time.ts';
import { done } from '../../domain/refusals.ts';
import { type ClockOffsets, type HealthReport, type PartName, partStates } from '../../services/health.ts';
import { isoTime } from '../inputs.ts';
import { operation } from '../operation.ts';

export const SERVICE_NAME = 'Twinkeep';
/** The service version reported by `/status` and `/version` (specification §9). */
export const SERVICE_VERSION = '1.0.0';
/** The protocol version reported over HTTP; devices use PROTO/3.1. */
export const REPORTED_PROTOCOL = 'PROTO/3.0';

const nothing = z.strictObject({});
const publicRead = { role: null, scope: null, changes: false } as const;

export const getStatus = operation({
  ...publicRead,
  name: 'getStatus',
  summary: 'Show the service and whether it works; it is degraded if a part of /health is',
  input: nothing,
  output: z.object({
    system: z.string(),
    status: z.enum(['operational', 'degraded', 'maintenance']).meta({ id: 'ServiceState' }),
    beta: z.boolean(),
    version: z.string(),
    protocol: z.string(),
  }),
  needs: ['flags', 'health', 'settings'],
  async run({ flags, health, settings }) {
    const working = flags().maintenance_mode ? ('maintenance' as const) : ('operational' as const);
    return done({
      body: {
        system: SERVICE_NAME,
        status: isDegraded(await health.report()) ? ('degraded' as const) : working,
        beta: settings.betaDeviceLimit > 0,
        version: SERVICE_VERSION,
        protocol: REPORTED_PROTOCOL,
      },
    });
  },
});

export const getVersion = operation({
  ...publicRead,
  name: 'getVersion',
  summary: 'Show the version of the service and its protocol',
  input: nothing,
  output: z.object({ version: z.string(), protocol: z.string() }),
  needs: [],
  run: async () => done({ body: { version: SERVICE_VERSION, protocol: REPORTED_PROTOCOL } }),
});

export const getChangelog = operation({
  ...publicRead,
  name: 'getChangelog',
  summary: 'Show the changes of each release, the running version first',
  input: nothing,
  output: z.object({
    entries: z.array(z.object({ version: z.string(), date: z.string().nullable(), changes: z.array(z.string()) })),
  }),
  needs: ['settings'],
  run: async ({ settings }) => done({ body: { entries: runningVersionFirst(settings.changelog, SERVICE_VERSION) } }),
});

const part = z.object({ status: z.enum(partStates).meta({ id: 'PartStatus' }) });
const checks = z.record(z.string(), z.boolean());

const healthy = z.object({
  status: z.literal('ok'),
  timestamp: isoTime,
  services: z.object({
    api: part,
    database: part,
    redis: part,
    mqtt: part,
    worker: part,
    build_service: part,
    cloud_editor: part,
  } satisfies Record<PartName, typeof part>),
  metrics: z
    .object({ active_devices: z.int() })
    .optional()
    .meta({ description: 'Counts over all tenants; with `METRICS_TOKEN` only for requests that present it' }),
});
const degraded = z.object({
  status: z.literal('degraded'),
  checks,
  clock: z
    .object({
      host_offset_s: z.number().meta({ description: 'The clock of the host minus the reference, in seconds' }),
      correction_s: z.number().meta({ description: "The reference minus the service's time, in seconds" }),
      timestamp: isoTime.optional().meta({ description: 'The reference time; not from a standby' }),
    })
    .optional()
    .meta({ description: 'The clock offsets, if `checks.clock` is false' }),
});

export const getHealth = operation({
  ...publicRead,
  name: 'getHealth',
  summary: 'Show the health of every part',
  input: nothing,
  output: z.union([healthy, degraded]),
  responses: {
    200: { when: 'Every enabled part works', body: healthy },
    503: { when: 'At least one part is degraded', body: degraded },
  },
  needs: ['clock', 'health', 'settings'],
  async run({ health, clock, settings }, { caller }) {
    const report = await health.report();
    const { api, database, redis, mqtt, worker, build_service, cloud_editor } = report.parts;
    if (isDegraded(report)) {
      const clockBody =
        report.clock === null ? {} : { clock: { ...offsetsBody(report.clock), timestamp: iso(referenceOf(clock)) } };
      return done({ status: 503, body: { status: 'degraded' as const, checks: checksOf(report), ...clockBody } });
    }
    return done({
      body: {
        status: 'ok' as const,
        timestamp: iso(referenceOf(clock)),
        services: {
          api: { status: api },
          database: { status: database },
          redis: { status: redis },
          mqtt: { status: mqtt },
          worker: { status: worker },
          build_service: { status: build_service },
          cloud_editor: { status: cloud_editor },
        },
        ...((settings.publicCounts || caller.readsMetrics || caller.platformAdmin) && {
          metrics: { active_devices: report.activeDevices },
        }),
      },
    });
  },
});

export const getLiveness = operation({
  ...publicRead,
  name: 'getLiveness',
  summary: 'Show whether the process is alive',
  input: nothing,
  output: z.object({ status: z.literal('alive'), uptime: z.number() }),
  needs: ['health'],
  run: async ({ health }) => done({ body: { status: 'alive' as const, uptime: health.uptime() } }),
});

const ready = z.object({ status: z.literal('ready') });
const notReady = z.object({
  status: z.enum(['not_ready', 'degraded', 'standby', 'starting', 'stopping']),
  checks: checks.optional(),
});

export const getReadiness = operation({
  ...publicRead,
  name: 'getReadiness',
  summary: 'Show whether requests are accepted; checks the cache and the database',
  input: nothing,
  output: z.union([ready, notReady]),
  responses: {
    200: { when: 'Requests are accepted', body: ready },
    503: { when: 'Send no requests: the process is on standby or stops, or a store does not answer', body: notReady },
  },
  needs: ['health'],
  async run({ health }) {
    if (health.stopping()) return done({ status: 503, body: { status: 'stopping' as const } });
    const { database, redis } = checksOf(await health.report());
    if (database && redis !== false) return done({ body: { status: 'ready' as const } });
    const available = { database: database === true, cache: redis !== false };
    // Without the shared cache, requests are still accepted and use the in-process cache.
    const status = database ? ('degraded' as const) : ('not_ready' as const);
    return done({ status: 503, body: { status, checks: available } });
  },
});

const isDegraded = ({ clock, parts }: HealthReport): boolean =>
  clock !== null || Object.values(parts).includes('degraded');

/** Without disabled parts. */
const checksOf = ({ parts, clock }: HealthReport): Record<string, boolean> => ({
  ...Object.fromEntries(
    Object.entries(parts)
      .filter(([, state]) => state !== 'disabled')
      .map(([name, state]) => [name, state === 'operational']),
  ),
  // Present only while it fails: the clock is not a part of the service.
  ...(clock !== null && { clock: false }),
});

const seconds = (milliseconds: number): number => Math.round(milliseconds) / 1000;

const offsetsBody = ({ hostMs, correctionMs }: ClockOffsets) => ({
  host_offset_s: seconds(hostMs),
  correction_s: seconds(correctionMs),
});

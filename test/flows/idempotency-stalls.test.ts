import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CommitUnknown, type Store } from '../../src/store/contract.ts';
import { Random } from '../simulation/world/random.ts';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { type ApiResponse, startService, type TestService } from '../support/service.ts';

/** Keys per run, rounded up to whole rounds; set `IDEMPOTENCY_TRIES=1000` for a long run. */
const TRIES = Number(process.env.IDEMPOTENCY_TRIES ?? 100);
const SEED = Number(process.env.IDEMPOTENCY_SEED ?? 13);
/** Keys per test, all in flight at once: few enough to finish well within the test timeout. */
const ROUND = 20;
const ROUNDS = Array.from({ length: Math.ceil(TRIES / ROUND) }, (_, n) => n + 1);
const WAIT_MS = 200;
const LONGEST_STALL_MS = 3 * WAIT_MS;

/**
 * A store whose commits stall at random, before they take effect or before they are answered, or whose connection is
 * lost before or after they took effect. A lost commit can still take effect later.
 */
function stalling(chance: () => number) {
  const late = new Set<Promise<unknown>>();
  const state = { on: false };
  async function stalled<T>(commit: () => Promise<T>): Promise<T> {
    if (!state.on || chance() < 0.5) return commit();
    const stall = () => pause(chance() * LONGEST_STALL_MS);
    const kind = Math.floor(chance() * 4);
    if (kind === 0) return stall().then(commit);
    const done = kind === 1 ? stall().then(commit) : commit();
    if (kind === 2) return done.finally(stall);
    const settled = done.catch(() => {}).finally(() => late.delete(settled));
    late.add(settled);
    if (kind === 3) await settled;
    throw new CommitUnknown('the connection was lost');
  }
  return {
    state,
    /** Resolves when no lost commit can take effect any longer. */
    quiet: () => eventually(() => late.size === 0),
    around: (store: Store): Store => ({
      ...store,
      actors: { ...store.actors, commit: (...batch) => stalled(() => store.actors.commit(...batch)) },
      records: { ...store.records, insertHome: (home, also) => stalled(() => store.records.insertHome(home, also)) },
      idempotency: { ...store.idempotency, put: (row) => stalled(() => store.idempotency.put(row)) },
    }),
  };
}

oneDeployment('requests with a key while commits stall at random', (deployment) => {
  const random = new Random(`${SEED}`);
  const chance = () => random.float();
  const stalls = stalling(chance);
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let light: string;
  let lock: string;
  beforeAll(async () => {
    const runtime = { callerTimeoutMs: WAIT_MS, deviceTimeoutMs: 2 * WAIT_MS };
    at = await startService(deployment().env, { limits: { runtime }, wrapStore: stalls.around });
    owner = await eventually(() => at.owner());
    light = (await eventually(() => register(owner))).device_id;
    lock = (await eventually(() => register(owner, { device_type: 'smart_lock' }))).device_id;
  });
  afterAll(() => at?.stop());

  /** Ids in the responses. */
  const made = { commands: [] as string[], devices: [] as string[], plans: [] as string[], homes: [] as string[] };
  const unexpected: string[] = [];

  /** Retries with the same key until there is a response, as a client does. */
  async function persist(path: string, body: object, key: string, wanted: number[]): Promise<ApiResponse> {
    for (;;) {
      const answer = await owner.post(path, body, { 'idempotency-key': key });
      const isConflict = answer.status === 409 && answer.body.code === 'CONFLICT';
      if (wanted.includes(answer.status) && !isConflict) return answer;
      if (answer.status !== 503 && !isConflict) {
        unexpected.push(`${path}: ${answer.status} ${answer.body.code} ${answer.body.detail}`);
        return answer;
      }
      await pause(20 + chance() * 60);
    }
  }

  const kinds = [
    async (n: number) => {
      const body = { action: 'turn_on', ttl_s: 3_600, timeout_s: 600 };
      const answer = await persist(`/v1/device/${light}/command`, body, `c-${n}`, [202]);
      made.commands.push(answer.body.command_id);
    },
    async (n: number) => {
      const body = { device_type: 'light', home_id: owner.homeId, name: `Lamp ${n}` };
      made.devices.push((await persist('/v1/device/register', body, `d-${n}`, [201])).body.device_id);
    },
    async (n: number) => {
      const steps = [{ id: 'a', device_id: light, action: 'turn_off', depends_on: [] }];
      const { body } = await persist('/v1/plans', { name: `Plan ${n}`, steps }, `p-${n}`, [202]);
      made.plans.push(body.plan?.id);
    },
    async (n: number) => {
      const { body } = await persist('/v1/homes', { home_name: `Home ${n}` }, `h-${n}`, [201]);
      made.homes.push(body.id);
    },
    async (n: number) => {
      const requested = await persist(
        `/v1/device/${lock}/command`,
        { action: 'unlock', timeout_s: 20 },
        `u-${n}`,
        [409],
      );
      const { dry_run_token, command_id } = requested.body;
      const confirmed = await persist(`/v1/device/${lock}/command/confirm`, { dry_run_token }, `y-${n}`, [202]);
      expect(confirmed.body.command_id).toBe(command_id);
    },
  ];

  async function all(path: string, name: string): Promise<ApiResponse['body'][]> {
    const found: ApiResponse['body'][] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query = cursor === '' ? 'limit=200' : `limit=200&cursor=${cursor}`;
      const { body } = await eventually(async () => {
        const answer = await owner.get(`${path}?${query}`);
        return answer.status === 200 ? answer : null;
      });
      found.push(...body[name]);
      cursor = body.next_cursor;
    }
    return found;
  }

  it.each(ROUNDS)(`have one effect each (seed ${SEED}, round %i of ${ROUNDS.length})`, async (round) => {
    stalls.state.on = true;
    const keys = Array.from({ length: ROUND }, (_, n) => (round - 1) * ROUND + n);
    await Promise.all(keys.map((n) => kinds[n % kinds.length]?.(n)));
    stalls.state.on = false;
    await stalls.quiet();

    expect(unexpected).toEqual([]);
    const commands = (await all(`/v1/device/${light}/commands`, 'commands')).filter((one) => one.action === 'turn_on');
    const devices = (await all('/v1/devices', 'devices')).filter((one) => one.name?.startsWith('Lamp '));
    const plans = await all('/v1/plans', 'plans');
    const homes = (await all('/v1/homes', 'homes')).filter((one) => one.home_name !== 'Home');
    const sorted = (ids: string[]) => ids.toSorted();
    for (const [found, answered] of [
      [commands, made.commands],
      [devices, made.devices],
      [plans, made.plans],
      [homes, made.homes],
    ] as const) {
      expect(sorted(found.map((one) => one.id))).toEqual(sorted(answered));
      expect(answered).toHaveLength((round * ROUND) / kinds.length);
    }
  });
});

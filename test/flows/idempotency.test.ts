import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ActorCommit, type CommitOptions, CommitUnknown, type Store } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { type ApiResponse, startService, type TestService } from '../support/service.ts';

/** A commit with a stored response, held before it reaches the store. */
interface Held {
  /** Lets it reach the store; resolves when the store has answered. */
  commit(): Promise<void>;
}

/** A store that holds commits with a stored response, and lets everything else pass. */
class SlowStore {
  readonly held: Held[] = [];
  /** The caller of a held commit gets an unknown outcome at once; the commit can still take effect. */
  lost = false;
  holding = false;

  around = (store: Store): Store => ({
    ...store,
    actors: { ...store.actors, commit: (commits, options) => this.#commit(store, commits, options) },
    records: {
      ...store.records,
      insertHome: (home, also) => this.#hold(also != null, () => store.records.insertHome(home, also)),
    },
  });

  async releaseAll(): Promise<void> {
    this.holding = false;
    await Promise.all(this.held.splice(0).map((one) => one.commit()));
  }

  #commit(store: Store, commits: readonly ActorCommit[], options?: CommitOptions) {
    const keyed = commits.some((actor) => actor.idempotency !== null || actor.ref.kind === 'command');
    return this.#hold(keyed, () => store.actors.commit(commits, options));
  }

  #hold<T>(keyed: boolean, commit: () => Promise<T>): Promise<T> {
    if (!this.holding || !keyed) return commit();
    const answer = Promise.withResolvers<T>();
    this.held.push({ commit: () => commit().then(answer.resolve, answer.reject) });
    if (!this.lost) return answer.promise;
    answer.promise.catch(() => {});
    return Promise.reject(new CommitUnknown('the connection was lost'));
  }
}

oneDeployment('a commit that takes longer than its caller waits', (deployment) => {
  const slow = new SlowStore();
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let light: string;
  let lock: string;
  beforeAll(async () => {
    // Short: a request that is not held is retried if the machine is slower than that.
    const runtime = { callerTimeoutMs: 200, deviceTimeoutMs: 300 };
    at = await startService(deployment().env, { limits: { runtime }, wrapStore: slow.around });
    owner = await eventually(() => at.owner());
    light = (await eventually(() => register(owner))).device_id;
    lock = (await eventually(() => register(owner, { device_type: 'smart_lock' }))).device_id;
  });
  afterAll(async () => {
    await slow.releaseAll();
    await at?.stop();
  });

  const until = (request: () => Promise<ApiResponse>, ...statuses: number[]): Promise<ApiResponse> =>
    eventually(async () => {
      const answer = await request();
      return statuses.includes(answer.status) ? answer : null;
    });
  const listed = async (path: string, name: string): Promise<ApiResponse['body'][]> =>
    (await until(() => owner.get(path), 200)).body[name] as ApiResponse['body'][];
  const commands = async (id: string) => (await listed(`/v1/device/${id}/commands`, 'commands')).map((one) => one.id);
  let used = 0;
  const newKey = () => ({ 'idempotency-key': `key-${++used}` });
  const step = () => ({ id: 'a', device_id: light, action: 'turn_on', depends_on: [] });

  /** A request, and how often it took effect. */
  const requests: [
    string,
    () => Promise<{ post: (key: Record<string, string>) => Promise<ApiResponse>; count(): Promise<number> }>,
  ][] = [
    [
      'a command',
      async () => {
        const before = (await commands(light)).length;
        const body = { action: 'turn_on', ttl_s: 3_600 };
        return {
          post: (key) => owner.post(`/v1/device/${light}/command`, body, key),
          count: async () => (await commands(light)).length - before,
        };
      },
    ],
    [
      'a confirmation',
      async () => {
        const { body } = await until(() => owner.post(`/v1/device/${lock}/command`, { action: 'unlock' }), 409);
        const confirm = { dry_run_token: body.dry_run_token };
        const isDispatched = async () =>
          (await until(() => owner.get(`/v1/commands/${body.command_id}`), 200)).body.command.status === 'dispatched';
        return {
          post: (key) => owner.post(`/v1/device/${lock}/command/confirm`, confirm, key),
          count: async () => ((await isDispatched()) ? 1 : 0),
        };
      },
    ],
    [
      'a registration',
      async () => {
        const name = `Lamp ${++used}`;
        const body = { device_type: 'light', home_id: owner.homeId, name };
        return {
          post: (key) => owner.post('/v1/device/register', body, key),
          count: async () =>
            (await listed('/v1/devices?limit=200', 'devices')).filter((one) => one.name === name).length,
        };
      },
    ],
    [
      'a plan',
      async () => {
        const name = `Plan ${++used}`;
        return {
          post: (key) => owner.post('/v1/plans', { name, steps: [step()] }, key),
          count: async () => (await listed('/v1/plans?limit=200', 'plans')).filter((one) => one.name === name).length,
        };
      },
    ],
    [
      'a batch',
      async () => {
        const before = (await commands(light)).length;
        const body = { device_ids: [light], action: 'turn_on', ttl_s: 3_600 };
        return {
          post: (key) => owner.post('/v1/devices/command', body, key),
          count: async () => (await commands(light)).length - before,
        };
      },
    ],
  ];

  /** Holds commits; resolves when `count` of them are held. */
  const stopped = (count: number) => eventually(() => slow.held.length >= count);

  it.each(requests)('reserves the key of %s until the commit has ended', async (_, make) => {
    const { post, count } = await make();
    const key = newKey();
    slow.holding = true;
    const first = await post(key);
    expect([first.status, first.body.code]).toEqual([503, 'STORE_UNAVAILABLE']);
    const second = await post(key);
    expect([second.status, second.body.code, second.headers.get('retry-after')]).toEqual([409, 'CONFLICT', '1']);
    await slow.releaseAll();
    const third = await until(() => post(key), 200, 201, 202);
    const again = await post(key);
    expect([again.headers.get('idempotent-replayed'), again.body]).toEqual(['true', third.body]);
    expect(await count()).toBe(1);
  });

  it.each(requests)(
    'answers a retry of %s with the first response if the commit ends after the retry began',
    async (_, make) => {
      const { post, count } = await make();
      const key = newKey();
      slow.holding = true;
      slow.lost = true;
      const first = await post(key);
      expect([first.status, first.body.code]).toEqual([503, 'STORE_UNAVAILABLE']);
      slow.lost = false;
      const lost = slow.held.splice(0);
      const retry = post(key);
      await stopped(1);
      await lost[0]?.commit();
      await slow.releaseAll();
      const answer = await retry;
      const last = answer.status < 300 ? answer : await until(() => post(key), 200, 201, 202);
      // A batch continues with the ids that its first attempt planned; its response is stored at the end.
      if (last.body.results === undefined) expect(last.headers.get('idempotent-replayed')).toBe('true');
      else expect(last.body.results).toMatchObject([{ success: true, status: 'dispatched' }]);
      expect(await count()).toBe(1);
    },
  );

  it('reserves the key of a plain record until its statement has ended', async () => {
    const name = `Home ${++used}`;
    const key = newKey();
    slow.holding = true;
    const first = owner.post('/v1/homes', { home_name: name }, key);
    await stopped(1);
    expect((await owner.post('/v1/homes', { home_name: name }, key)).status).toBe(409);
    await slow.releaseAll();
    expect((await first).status).toBe(201);
    expect((await listed('/v1/homes', 'homes')).filter((one) => one.home_name === name)).toHaveLength(1);
  });

  it('answers a retry of a plain record whose lost statement takes effect after all', async () => {
    const name = `Home ${++used}`;
    const key = newKey();
    slow.holding = true;
    slow.lost = true;
    expect((await owner.post('/v1/homes', { home_name: name }, key)).status).toBe(503);
    slow.lost = false;
    const lost = slow.held.splice(0);
    const retry = owner.post('/v1/homes', { home_name: name }, key);
    await stopped(1);
    await lost[0]?.commit();
    await slow.releaseAll();
    expect([(await retry).status, (await retry).headers.get('idempotent-replayed')]).toEqual([201, 'true']);
    expect((await listed('/v1/homes', 'homes')).filter((one) => one.home_name === name)).toHaveLength(1);
  });
});

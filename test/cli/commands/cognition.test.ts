import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../../../src/device/device.ts';
import { CognitiveLayer } from '../../../src/operations/cognition/cognition.ts';
import type { Cognition } from '../../../src/operations/cognition/contract.ts';
import { runCli, runCliInProcess } from '../../support/cli.ts';
import { eventually } from '../../support/clock.ts';
import { turnOn, unwrap } from '../../support/cognition-fixture.ts';
import { connect, register } from '../../support/device.ts';
import { installFakeSidecar } from '../../support/fake-sidecar.ts';
import { startService, type TestService } from '../../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let device: Device;
let cognition: Cognition & { close(): void };
beforeAll(async () => {
  at = await startService();
  cognition = new CognitiveLayer(at.services, { subscribe: () => () => {} });
  const sidecar = installFakeSidecar(at.services);
  owner = await at.owner();
  const done = (on: boolean) => () => ({ state: { on } });
  device = await connect(await register(owner), { commands: { turn_on: done(true), turn_off: done(false) } });
  // A planner with one idea, which it proposes once per context.
  const thought = new Set<string>();
  sidecar.notify = ({ type, contextId }) => {
    if (type !== 'opened' || thought.has(contextId)) return;
    thought.add(contextId);
    void think(contextId);
  };
});
afterAll(async () => {
  cognition.close();
  await device.close();
  await at.stop();
});

async function think(id: string): Promise<void> {
  const context = await cognition.context(id);
  if (context?.text === 'Be silent.') return void (await cognition.fail(id, { code: 'NO_IDEA', detail: 'No idea.' }));
  if (context?.text === 'Think for long.') return;
  unwrap(await cognition.propose(id, turnOn('light', device.deviceId)));
  unwrap(await cognition.complete(id, { summary: 'There is light.' }));
}

const run = (...args: string[]) => runCliInProcess(args, { url: at.url, token: owner.token });
/** In a child process: `--watch` subscribes to process signals. */
const watch = (...args: string[]) =>
  runCli([...args, '--watch'], { TWINKEEP_URL: at.url, TWINKEEP_TOKEN: owner.token });

const ID = /^[0-9a-f-]{36}\n$/;

describe('twinkeep goal', () => {
  it('follows the plan for a goal to its end', async () => {
    const { code, stdout, stderr } = await watch('goal', 'Light, please.', '--home', owner.homeId);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/Light, please\. succeeded \S+\nThere is light\.\n└─ light succeeded turn_on \{\} \S+\n$/);
  });

  it('for a device prints the id of its plan', async () => {
    const { code, stdout } = await run('goal', 'Light.', '--device', device.deviceId, '--context', 'A film.');
    expect([code, stdout]).toEqual([0, expect.stringMatching(ID)]);
  });

  it('without --watch prints how to follow the plan', async () => {
    const { code, stdout, stderr } = await run('goal', 'Light, please.', '--json');
    expect(code).toBe(0);
    expect(stderr).toBe(`follow it with: twinkeep plans show ${JSON.parse(stdout).plan_id} --watch\n`);
    expect((await run('goal', 'Light again.')).code).toBe(0);
  });

  it('without --watch ends with 1 and prints the reason if the sidecar cannot plan', async () => {
    const { code, stdout, stderr } = await run('goal', 'Be silent.');
    expect([code, stdout]).toEqual([1, expect.stringMatching(ID)]);
    expect(stderr).toBe(`error: the plan is failed: NO_IDEA: No idea.; twinkeep plans show ${stdout.trim()}\n`);
    expect((await run('plans')).stdout).toMatch(new RegExp(`^${stdout.trim()} .* failed +NO_IDEA `, 'm'));
  });

  it('without --watch ends with 0 while the sidecar plans, and for a key that may not read plans', async () => {
    const slow = await run('goal', 'Think for long.');
    expect([slow.code, slow.stderr]).toEqual([0, expect.stringMatching(/^follow it with: /)]);
    const scopes = ['execute:intents', 'execute:commands', 'read:devices'];
    const { body } = await owner.post('/v1/auth/api-keys', { name: 'x', scopes });
    const sent = await runCliInProcess(['goal', 'Be silent.'], { url: at.url, token: body.key });
    expect([sent.code, sent.stdout]).toEqual([0, expect.stringMatching(ID)]);
  });

  it('without a plan as a result ends with 1 and prints the reason', async () => {
    const { code, stdout } = await watch('goal', 'Be silent.');
    expect([code, stdout]).toEqual([1, expect.stringMatching(/failed \S+\nNO_IDEA: No idea\.\n$/)]);
  });

  it('takes --device or --home, not both', async () => {
    const both = await run('goal', 'Light.', '--device', device.deviceId, '--home', owner.homeId);
    expect([both.code, both.stdout]).toEqual([2, '']);
    expect((await run('goal', 'Light.', '--context', 'A film.')).code).toBe(2);
  });
});

describe('twinkeep observe and proposals', () => {
  const observed = async (): Promise<string> => {
    const { code, stdout } = await run('observe', device.deviceId, 'humidity=81', '--context', 'After a shower');
    expect([code, stdout]).toEqual([0, expect.stringMatching(ID)]);
    const id = stdout.trim();
    // The proposal is pending from the start; the sidecar's reason arrives later.
    await eventually(async () => {
      const { proposal } = (await owner.get(`/v1/cognition/proposals/${id}`)).body;
      return proposal.status === 'pending' && proposal.reason === 'There is light.';
    });
    return id;
  };

  it('show the proposal for an observation, and run it when accepted', async () => {
    const id = await observed();
    const shown = await run('proposals', 'show', id);
    expect(shown.stdout).toMatch(
      /^pending There is light\. \S+\nobserved by \S+: \{"humidity":81\}\n {2}light turn_on/,
    );
    expect((await run('proposals')).stdout).toMatch(new RegExp(`${id} +pending +1 +There is light\\.`));
    const { code, stdout } = await watch('proposals', 'accept', id);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/└─ light succeeded turn_on \{\} \S+\n$/)]);
    expect((await run('proposals', 'show', id)).stdout).toMatch(/^accepted [\s\S]*\nplan \S+\n$/);
  });

  it('refuse a proposal, which cannot be accepted afterwards', async () => {
    const id = await observed();
    const { code, stdout } = await run('proposals', 'refuse', id, '--reason', 'The window is open.');
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^refused The window is open\. /)]);
    expect((await run('proposals', 'accept', id)).code).toBe(1);
  });
});

import { expect, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { startService } from '../support/service.ts';

it('a critical command whose session was replaced during its commit reaches the new session once', async () => {
  let commits = () => {};
  let held = false;
  const commit = new Promise<void>((resolve) => {
    commits = resolve;
  });
  const at = await startService(
    {},
    {
      wrapStore: (store) => ({
        ...store,
        actors: {
          ...store.actors,
          async commit(commits, options) {
            if (commits.some(({ ref, columns }) => ref.kind === 'command' && columns.written === true) && !held) {
              held = true;
              await commit;
            }
            return store.actors.commit(commits, options);
          },
        },
      }),
    },
  );
  const owner = await at.owner();
  const lock = await register(owner, { device_type: 'smart_lock' });
  let unlocked = 0;
  const commands = {
    unlock: () => {
      unlocked += 1;
      return { state: { locked: false } };
    },
  };
  const before = await connect(lock, { commands });
  const session = () => at.services.sessions.get(lock.device_id);
  await eventually(() => session()?.subscribed);
  const old = session()?.sessionId;
  const { body } = await owner.post(`/v1/device/${lock.device_id}/command`, { action: 'unlock' });
  const approved = owner.post(`/v1/confirmations/${body.command_id}/approve`);
  await eventually(() => held);
  await before.close();
  const after = await connect(lock, { commands }, { online: false });
  await eventually(() => session()?.subscribed === true && session()?.sessionId !== old);
  commits();
  expect((await approved).status).toBe(202);
  await waitForCommand(owner, body.command_id, ({ status }) => status === 'succeeded');
  expect(unlocked).toBe(1);
  await after.close();
  await at.stop();
});

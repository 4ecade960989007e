import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { readTokenKey } from '../../src/config.ts';
import { keyId } from '../../src/domain/sealing.ts';
import { issueToken } from '../../src/main.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { browserAt } from '../support/browser.ts';
import { currentBuild } from '../support/builds.ts';
import { runCliInProcess } from '../support/cli.ts';
import { type GroupNode, NodeGroup } from '../support/node-group.ts';

const first = (group: NodeGroup): GroupNode => group.nodes[0] as GroupNode;

describe.runIf(inject('postgresUrl'))('a change of the master key on several nodes, one by one', () => {
  const newKey = randomBytes(32);
  let group: NodeGroup;
  let oldKey: string;
  let announcing: Record<string, string>;
  let using: Record<string, string>;

  beforeAll(async () => {
    group = await NodeGroup.open();
    oldKey = group.env.MASTER_KEY ?? '';
    announcing = { MASTER_KEY_NEXT: newKey.toString('base64') };
    using = { MASTER_KEY: newKey.toString('base64'), MASTER_KEY_PREVIOUS: oldKey };
  });
  afterAll(() => group.close());

  const secretsOf = async (key: Uint8Array): Promise<number> => {
    const [row] = await group.sql<{ rows: number }>(
      `select count(*)::integer as rows from device_keys where substr(sealed_secret, 4, 11) = $1`,
      [keyId(key)],
    );
    return row?.rows ?? 0;
  };

  it('starts with nodes that have the old key', async () => {
    await Promise.all([group.start(currentBuild), group.start(currentBuild)]);
    await group.settled();
    await group.addTenants(2);
    await group.progress();
  });

  it.each(['one node', 'the other node'])('gives the next key to %s, which does not use it', async () => {
    await group.replace(first(group), currentBuild, announcing);
    await group.progress();
    expect(await secretsOf(newKey)).toBe(0);
  });

  it('lets nodes that encrypt with either key open what the other has encrypted', async () => {
    const user = await group.replace(first(group), currentBuild, using);
    await group.addTenants(1, user);
    await group.progress();
    const other = first(group);
    const token = await issueToken(readTokenKey(group.env), { sub: 'ada', ttlS: 600 });
    for (const [opened, used] of [
      [user, other],
      [other, user],
    ] as const) {
      const browser = browserAt(opened.served.url);
      expect((await browser.request('POST', '/v1/auth/session', { body: { token } })).status).toBe(204);
      const elsewhere = browserAt(used.served.url);
      elsewhere.cookies = browser.cookies;
      expect((await elsewhere.request('GET', '/v1/auth/me')).status).toBe(200);
    }
  });

  it('reports that the old key is still needed while a node encrypts with it', async () => {
    const [old, user] = group.nodes as [GroupNode, GroupNode];
    const token = await issueToken(readTokenKey(group.env), { sub: 'operator', scope: PLATFORM_SCOPE, ttlS: 600 });
    const { stderr } = await runCliInProcess(['rekey', '--dry-run'], { url: user.served.url, token });
    const [oldId, newId] = [keyId(Buffer.from(oldKey, 'base64')), keyId(newKey)];
    expect(stderr).toMatch(new RegExp(`the node \\S+:${old.ports.PORT} has MASTER_KEY ${oldId}, not ${newId}\n`));
    expect(stderr).not.toContain('is no longer needed');
  });

  it('returns the devices of a node with the new key that is killed to the other one', async () => {
    const killed = group.nodes[1] as GroupNode;
    await group.stop(killed, 'SIGKILL');
    await group.settled();
    await group.progress();
    await group.start(currentBuild, killed.ports, using);
    await group.settled();
  });

  it('encrypts the secrets of all nodes again under load', async () => {
    await group.replace(first(group), currentBuild, using);
    expect(await secretsOf(Buffer.from(oldKey, 'base64'))).toBeGreaterThan(0);
    const token = await issueToken(readTokenKey(group.env), { sub: 'operator', scope: PLATFORM_SCOPE, ttlS: 600 });
    const { code, stderr } = await runCliInProcess(['rekey'], { url: first(group).served.url, token });
    expect([code, stderr]).toEqual([0, expect.stringContaining('is no longer needed for stored secrets.')]);
    expect(await secretsOf(Buffer.from(oldKey, 'base64'))).toBe(0);
    await group.progress();
  });

  it.each(['one node', 'both nodes'])('goes on without the old key at %s', async () => {
    await group.replace(first(group), currentBuild, { MASTER_KEY: newKey.toString('base64') });
    await group.progress();
  });

  it('has lost nothing, repeated no command, and let each device reconnect once for each node that it was on', async () => {
    expect(await group.verify()).toEqual([]);
    expect(await group.restlessDevices()).toEqual([]);
  });
});

import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import {
  type BalancedNodes,
  type BalancerProgram,
  deployed,
  expectServiceUntilOneNodeIsLeft,
  startBalancedNodes,
} from '../support/balanced-nodes.ts';

const { haproxy } = inject('programs');

const program: BalancerProgram = {
  configurationFor(nodes, { http, mqtt }) {
    const bound = deployed('haproxy/haproxy.cfg')
      .replace('bind :8080', `bind 127.0.0.1:${http}`)
      .replace('bind :1883', `bind 127.0.0.1:${mqtt}`);
    return nodes.reduce(
      (text, { PORT, MQTT_PORT }, n) =>
        text
          .replace(`node${n + 1}:1883 port 8080`, `127.0.0.1:${MQTT_PORT} port ${PORT}`)
          .replace(`node${n + 1}:8080`, `127.0.0.1:${PORT}`),
      bound,
    );
  },
  command: (file) => [haproxy as string, '-db', '-f', file],
};

describe.runIf(inject('postgresUrl') && haproxy)('three nodes behind HAProxy', () => {
  let balanced: BalancedNodes;
  beforeAll(async () => {
    balanced = await startBalancedNodes(program);
  });
  afterAll(() => balanced?.stop());

  it('keep a client with cookies at one node', async () => {
    const { owner } = balanced;
    const first = await owner.get('/v1/devices');
    const cookie = /twinkeep_node=(node\d)/.exec(first.headers.get('set-cookie') ?? '')?.[0] as string;
    expect(cookie).toBeDefined();
    const again = await owner.get('/v1/devices', { cookie });
    expect(again.status).toBe(200);
    expect(again.headers.get('set-cookie')).toBe(null);
  });

  it('serve devices by MQTT, and go on when a node ends', () => expectServiceUntilOneNodeIsLeft(balanced));
});

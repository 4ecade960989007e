import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { PLATFORM_SCOPE } from '../../../src/services/tokens.ts';
import { runCliInProcess } from '../../support/cli.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { firstNode, type MemoryNodes, secondNode } from '../../support/memory-nodes.ts';

let service: HttpService;
let token: string;
const nodes = () => service.services.nodes as MemoryNodes;
const run = (...args: string[]) => runCliInProcess(['admin', 'nodes', ...args], { url: service.url, token });

beforeAll(async () => {
  service = await startHttpService();
  token = await service.token('operator', { scope: PLATFORM_SCOPE });
});
beforeEach(() => nodes().reset());
afterAll(() => service.close());

describe('twinkeep admin nodes', () => {
  it('lists the nodes with their load, and how many shards have no owner', async () => {
    Object.assign(nodes().nodes[1] as object, { figures: null, leaseAgeMs: null });
    nodes().owners[1] = null;
    const { code, stdout, stderr } = await run('list');
    expect(code).toBe(0);
    const rows = stdout.split('\n').map((line) => line.split(/ {2,}/));
    expect(rows[1]).toEqual([
      ...['1', 'node-1:8080', 'active', '1.0.0', '128', '0', '0', '60', '40'],
      ...['25 %', '3815 MiB', '2 ms', '0.8 s', '130', '2', firstNode],
    ]);
    expect(rows[2]).toEqual([
      ...['2', 'node-2:8080', 'active', '1.0.0', '127', '0', '0', '-', '-'],
      ...['-', '-', '-', '-', '-', '-', secondNode],
    ]);
    expect(stderr).toContain('shards without an owner: 1');
    const { nodes: listed } = JSON.parse((await run('list', '--json')).stdout);
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([firstNode, secondNode]);
  });

  it.each([secondNode, '2', 'node-2:8080'])('drains and resumes the node %s', async (wanted) => {
    expect(await run('drain', wanted)).toMatchObject({ code: 0, stdout: 'draining\n' });
    expect(nodes().nodes[1]?.state).toBe('draining');
    expect(await run('resume', wanted)).toMatchObject({ code: 0, stdout: 'active\n' });
    expect(nodes().nodes[1]?.state).toBe('active');
  });

  it('with --wait ends when the node owns no shard', async () => {
    let reports = 0;
    const { report } = nodes();
    nodes().report = async () => {
      reports += 1;
      if (reports === 3) nodes().owners.fill(firstNode);
      return report.call(nodes());
    };
    const drained = await run('drain', '2', '--wait', '--json');
    nodes().report = report;
    expect(JSON.parse(drained.stdout)).toEqual({ node_id: secondNode, state: 'draining', shards: 0 });
    expect(reports).toBe(3);
  });

  it('with --wait ends when the node has ended', async () => {
    const { report } = nodes();
    let reports = 0;
    nodes().report = async () => {
      reports += 1;
      if (reports === 2) nodes().nodes.pop();
      return report.call(nodes());
    };
    const drained = await run('drain', '2', '--wait');
    nodes().report = report;
    expect(drained).toMatchObject({ code: 0, stdout: 'drained\n' });
  });

  it('with --wait fails if the node keeps shards or is resumed', async () => {
    const late = await run('drain', '2', '--wait', '--timeout', '1s');
    expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining('still owns 128 shards') });
    const { drain } = nodes();
    nodes().drain = async () => 'done';
    await nodes().resume(secondNode);
    const resumed = await run('drain', '2', '--wait');
    nodes().drain = drain;
    expect(resumed).toMatchObject({ code: 1, stderr: expect.stringContaining('the node was resumed') });
  });

  it('reports a node that is unknown or ambiguous, and a refusal', async () => {
    expect(await run('drain', '9')).toMatchObject({ code: 2, stderr: expect.stringContaining("no live node is '9'") });
    Object.assign(nodes().nodes[1] as object, { address: 'node-1:8080' });
    const twice = await run('drain', 'node-1:8080');
    expect(twice).toMatchObject({ code: 2, stderr: expect.stringContaining('several nodes have the address') });
    await nodes().drain(firstNode);
    const refused = await run('drain', '2');
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('No other node is active') });
  });
});

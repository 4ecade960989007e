import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { answerCpu } from './cpu.ts';

/*
 * Node-RED with a flow of three nodes (http in → function → http response) that answers a command with 202. It checks no token and stores
 * nothing. NODE_RED is the folder in which `npm install node-red` was run: it is not a dependency of this project.
 */

interface NodeRed {
  init(server: unknown, settings: object): void;
  start(): Promise<void>;
  readonly httpNode: RequestListener;
}

const flow = [
  { id: 'tab', type: 'tab', label: 'commands' },
  { id: 'in', z: 'tab', type: 'http in', url: '/v1/device/:id/command', method: 'post', wires: [['answer']] },
  {
    ...{ id: 'answer', z: 'tab', type: 'function', outputs: 1, wires: [['out']] },
    func: "msg.statusCode = 202; msg.payload = { device_id: msg.req.params.id, action: msg.payload.action, status: 'accepted' }; return msg;",
  },
  { id: 'out', z: 'tab', type: 'http response', wires: [] },
];

const require = createRequire(join(resolve(process.env.NODE_RED as string), 'package.json'));
const red = require('node-red') as NodeRed;
const userDir = mkdtempSync(join(tmpdir(), 'bench-node-red-'));
process.once('exit', () => rmSync(userDir, { recursive: true, force: true }));
writeFileSync(join(userDir, 'flows.json'), JSON.stringify(flow));

const server = createServer();
red.init(server, {
  ...{ userDir, flowFile: 'flows.json', httpAdminRoot: false, httpNodeRoot: '/', credentialSecret: false },
  logging: { console: { level: 'error', metrics: false, audit: false } },
});
server.on('request', red.httpNode);
await red.start();
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const { port } = server.address() as AddressInfo;
answerCpu();
// The flow is deployed a moment after `start` has resolved.
const answered = async () =>
  (await fetch(`http://127.0.0.1:${port}/v1/device/a/command`, { method: 'POST' }).catch(() => null))?.status === 202;
while (!(await answered())) await new Promise((resolve) => setTimeout(resolve, 100));
process.send?.({ port });
process.on('disconnect', () => process.exit(0));

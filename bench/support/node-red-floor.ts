import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { answerCpuRequests } from './cpu.ts';
import { freePort } from './postgres.ts';

/*
 * Node-RED with a flow of three nodes (http in → function → http response) that answers a command with 202, started by
 * its own `red.js` with default settings. It checks no token and stores nothing. NODE_RED is the folder in which `npm
 * install node-red` was run: Node-RED is not a dependency of this project.
 */

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
const userDir = mkdtempSync(join(tmpdir(), 'bench-node-red-'));
process.once('exit', () => rmSync(userDir, { recursive: true, force: true }));
const flowFile = join(userDir, 'flows.json');
writeFileSync(flowFile, JSON.stringify(flow));
const port = await freePort();

// Suppresses its start-up messages.
console.log = () => {};
process.argv = [process.execPath, 'red.js', '--userDir', userDir, '--port', `${port}`, '--no-telemetry', flowFile];
require('node-red/red.js');
answerCpuRequests();
// The flow is deployed shortly after the server listens.
const answered = async () =>
  (await fetch(`http://127.0.0.1:${port}/v1/device/a/command`, { method: 'POST' }).catch(() => null))?.status === 202;
while (!(await answered())) await new Promise((resolve) => setTimeout(resolve, 100));
process.send?.({ port });
process.on('disconnect', () => process.exit(0));

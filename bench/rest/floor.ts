import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import express, { type Request } from 'express';
import { importJWK, jwtVerify } from 'jose';
import { v7 } from 'uuid';
import { z } from 'zod';
import { answerCpu } from '../support/cpu.ts';

/*
 * The floor: what any Node service of this kind pays before it does anything. Express routes, jose verifies the token of each
 * request, zod checks query or body. Nothing is behind it: 202 for a command, and 50 devices out of memory, of which the
 * service's answer has the same members, written as JSON anew for each request.
 */

const PAGE = 50;

const command = z.strictObject({
  action: z.string().min(1).max(64),
  params: z.record(z.string(), z.unknown()).optional(),
  dry_run: z.boolean().optional(),
  ttl_s: z.int().min(1).max(86_400).optional(),
});
const listing = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(PAGE),
  cursor: z.string().optional(),
  home_id: z.uuid().optional(),
});

const home = v7();
const devices = Array.from({ length: 10_000 }, () => ({ id: v7(), seen: Date.now() }));

const publicKey = await importJWK(JSON.parse(process.env.PUBLIC_JWK ?? '{}'), 'EdDSA');
const verify = ({ headers }: Request) =>
  jwtVerify(headers.authorization?.slice('Bearer '.length) ?? '', publicKey, {
    issuer: 'urn:twinkeep',
    audience: 'twinkeep',
    algorithms: ['EdDSA'],
  });

const app = express();
app.disable('x-powered-by');
app.use(express.json());
app.get('/v1/devices', async (request, response) => {
  await verify(request);
  const asked = listing.safeParse(request.query);
  if (!asked.success) {
    response.status(400).json({ code: 'VALIDATION_FAILED' });
    return;
  }
  const start = asked.data.cursor === undefined ? 0 : devices.findIndex(({ id }) => id === asked.data.cursor) + 1;
  const page = devices.slice(start, start + asked.data.limit).map(({ id, seen }) => ({
    id,
    device_type: 'smart_light',
    home_id: home,
    room_id: null,
    firmware: null,
    last_seen: new Date(seen).toISOString(),
    revoked: false,
    name: null,
    online: false,
  }));
  response.json({ devices: page, count: devices.length, next_cursor: page.at(-1)?.id ?? null });
});
app.post('/v1/device/:id/command', async (request, response) => {
  await verify(request);
  const checked = command.safeParse(request.body);
  if (!checked.success) response.status(400).json({ code: 'VALIDATION_FAILED' });
  else response.status(202).json({ success: true, command_id: randomUUID(), message_id: randomUUID() });
});

const server = createServer(app);
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
answerCpu();
process.on('disconnect', () => process.exit(0));

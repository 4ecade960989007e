import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import express, { type Request } from 'express';
import { importJWK, jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import { v7 } from 'uuid';
import { z } from 'zod';
import { answerCpuRequests } from './cpu.ts';

/*
 * The HTTP floor, in a separate process: Express routes, jose verifies the token, zod validates query or body. No logic
 * behind it: 202 for a command, and 50 devices from memory with the same members as the service's response, serialised
 * for each request. With PROOFS=cached a verified token is cached until it expires, as in the service; otherwise the
 * signature is verified for each request.
 */

const PAGE = 50;
const CACHED_TOKENS = 10_000;

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
const positions = new Map(devices.map(({ id }, at) => [id, at]));

const publicKey = await importJWK(JSON.parse(process.env.PUBLIC_JWK ?? '{}'), 'EdDSA');
const expected = { issuer: 'urn:twinkeep', audience: 'twinkeep', algorithms: ['EdDSA'] };
/** `exp` of each verified token, in seconds. */
const cached = process.env.PROOFS === 'cached' ? new LRUCache<string, number>({ max: CACHED_TOKENS }) : null;

async function authenticate({ headers }: Request): Promise<void> {
  const token = headers.authorization?.slice('Bearer '.length) ?? '';
  if ((cached?.get(token) ?? 0) * 1_000 > Date.now()) return;
  const { payload } = await jwtVerify(token, publicKey, expected);
  cached?.set(token, payload.exp ?? 0);
}

const app = express();
app.disable('x-powered-by');
app.use(express.json());
app.get('/v1/devices', async (request, response) => {
  await authenticate(request);
  const parsed = listing.safeParse(request.query);
  if (!parsed.success) {
    response.status(400).json({ code: 'VALIDATION_FAILED' });
    return;
  }
  const { cursor, limit } = parsed.data;
  const start = cursor === undefined ? 0 : (positions.get(cursor) ?? -1) + 1;
  const page = devices.slice(start, start + limit).map(({ id, seen }) => ({
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
  await authenticate(request);
  const checked = command.safeParse(request.body);
  if (!checked.success) response.status(400).json({ code: 'VALIDATION_FAILED' });
  else response.status(202).json({ success: true, command_id: randomUUID(), message_id: randomUUID() });
});

const server = createServer(app);
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
answerCpuRequests();
process.on('disconnect', () => process.exit(0));

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { importJWK, jwtVerify } from 'jose';
import { z } from 'zod';
import { answerCpu } from '../support/cpu.ts';

/*
 * The floor: what any Node service of this kind pays before it does anything. Express routes, jose verifies the token of each
 * request, zod checks the body, and 202 is answered with nothing behind it.
 */

const body = z.strictObject({
  action: z.string().min(1).max(64),
  params: z.record(z.string(), z.unknown()).optional(),
  dry_run: z.boolean().optional(),
});

const publicKey = await importJWK(JSON.parse(process.env.PUBLIC_JWK ?? '{}'), 'EdDSA');
const app = express();
app.disable('x-powered-by');
app.use(express.json());
app.post('/v1/device/:id/command', async (request, response) => {
  const token = request.headers.authorization?.slice('Bearer '.length) ?? '';
  await jwtVerify(token, publicKey, { issuer: 'urn:twinkeep', audience: 'twinkeep', algorithms: ['EdDSA'] });
  const checked = body.safeParse(request.body);
  if (!checked.success) response.status(400).json({ code: 'VALIDATION_FAILED' });
  else response.status(202).json({ success: true, command_id: randomUUID(), message_id: randomUUID() });
});

const server = createServer(app);
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
answerCpu();
process.on('disconnect', () => process.exit(0));

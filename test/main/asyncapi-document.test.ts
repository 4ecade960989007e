import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildPages } from '../../scripts/build-pages.ts';
import { messageRefusalCodes } from '../../src/domain/refusals.ts';
import { closeReasons } from '../../src/edges/shared/live/close-codes.ts';
import { updateKindNames } from '../../src/edges/shared/live/update-kinds.ts';
import { checkMessage } from '../../src/protocol/envelope.ts';
import { verifyingKey } from '../../src/protocol/signature.ts';
import { deviceChannels } from '../../src/protocol/topics.ts';
import { asyncApiSpec, messageValidator, schemaViolation } from '../support/asyncapi-validation.ts';
import { type HttpService, startHttpService } from '../support/http-service.ts';

const messages = Object.keys(asyncApiSpec.components.messages);
const documentText = JSON.stringify(asyncApiSpec);

function* refs(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return;
  if ('$ref' in value && typeof value.$ref === 'string') yield value.$ref;
  for (const item of Object.values(value)) yield* refs(item);
}

function* summaries(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return;
  if ('summary' in value && typeof value.summary === 'string') yield value.summary;
  for (const item of Object.values(value)) yield* summaries(item);
}

const resolve = (ref: string): unknown =>
  ref
    .replace(/^#\//, '')
    .split('/')
    .reduce<unknown>((found, part) => (found as Record<string, unknown> | undefined)?.[part], asyncApiSpec);

describe('the AsyncAPI document', () => {
  it('has every channel, message type and kind of event', () => {
    expect(asyncApiSpec.asyncapi).toBe('3.0.0');
    for (const channel of [...deviceChannels, 'cmd']) {
      expect(asyncApiSpec.channels[channel]?.address).toBe(`proto/{tenantId}/device/{deviceId}/${channel}`);
      expect(Object.keys(asyncApiSpec.channels[channel]?.parameters ?? {})).toEqual(['tenantId', 'deviceId']);
    }
    expect(Object.keys(asyncApiSpec.channels.cmd?.messages ?? {})).toEqual(['cmd', 'hello_ack', 'error']);
    for (const kind of updateKindNames)
      expect(Object.keys(asyncApiSpec.channels.stateStream?.messages ?? {})).toContain(`${kind}_update`);
    expect(Object.keys(asyncApiSpec.channels.stateStream?.messages ?? {})).toEqual(
      expect.arrayContaining(['ping', 'pong']),
    );
  });

  it('names every refusal of a message, every close code, and how devices and users sign in', () => {
    for (const code of messageRefusalCodes)
      expect(asyncApiSpec.components.schemas.MessageRefusalCode?.description).toContain(code);
    for (const code of Object.keys(closeReasons))
      expect(asyncApiSpec.channels.stateStream?.description).toContain(code);
    expect(asyncApiSpec.components.securitySchemes.deviceSession?.description).toContain(
      '<device_id>.<unix ms>.<nonce>',
    );
    expect(asyncApiSpec.components.securitySchemes.userSession?.description).toContain('`jwt`');
  });

  it('has no broken reference, and no unused component', () => {
    const used = new Set(refs(asyncApiSpec));
    for (const ref of used) expect([ref, resolve(ref)]).not.toContain(undefined);
    for (const [kind, components] of Object.entries<object>(asyncApiSpec.components)) {
      for (const name of Object.keys(components)) expect(used).toContain(`#/components/${kind}/${name}`);
    }
  });

  it('has summaries without backticks, because the page of events shows them as plain text', () => {
    const found = [...summaries(asyncApiSpec)];
    expect(found.length).toBeGreaterThan(messages.length);
    expect(found.filter((summary) => summary.includes('`'))).toEqual([]);
  });

  it('assigns every message to an operation', () => {
    const notified = new Set(
      Object.values(asyncApiSpec.operations).flatMap(({ messages: own, reply }) =>
        [...refs(own), ...refs(reply?.messages)].map((ref) => ref.split('/').at(-1)),
      ),
    );
    expect([...notified].sort()).toEqual([...messages].sort());
  });

  it.each(messages)('has an example of %s that matches its schema', (name) => {
    const payload = asyncApiSpec.components.messages[name]?.examples[0]?.payload;
    const validate = messageValidator(name);
    expect([validate(payload), validate.errors]).toEqual([true, null]);
  });

  it.each(deviceChannels)('has an example of %s that the service would accept', (channel) => {
    const example = asyncApiSpec.components.messages[channel]?.examples[0];
    const payload = example?.payload as unknown as Record<'device_id' | 'tenant_id' | 'client_id', string> & {
      timestamp: number;
    };
    const key = verifyingKey('hmac-sha256', example?.summary?.split(' ').at(-1) ?? '');
    const session = { deviceId: payload.device_id, tenantId: payload.tenant_id, clientId: payload.client_id };
    const checked = checkMessage(
      JSON.stringify(payload),
      { ...session, key, keyVersion: 1 },
      channel,
      payload.timestamp,
    );
    expect(checked).toMatchObject({ ok: true, content: { ok: true } });
  });

  it('accepts no message with a missing member', () => {
    expect(schemaViolation({ type: 'presence_update', device_id: 'x', online: true, timestamp: 1 })).toBeNull();
    expect(schemaViolation({ type: 'presence_update', device_id: 'x', online: true })).toContain('timestamp');
    expect(schemaViolation({ type: 'gossip_update' })).toBe('undocumented message gossip_update');
  });
});

describe('the event reference page', () => {
  let service: HttpService;
  beforeAll(async () => {
    await buildPages('reference');
    service = await startHttpService();
  });
  afterAll(() => service.close());

  it('is served next to its document, with the addresses of this service', async () => {
    const { body, headers } = await service.call('GET', '/asyncapi.json');
    expect(headers.get('content-type')).toBe('application/json');
    expect(body.servers.websocket).toMatchObject({ host: '127.0.0.1', protocol: 'ws' });
    expect({ ...body, servers: 0, info: 0 }).toEqual({ ...JSON.parse(documentText), servers: 0, info: 0 });
    expect((await service.call('GET', '/v1/asyncapi.json')).status).toBe(404);
  });

  it('is linked from the REST reference, and links back', async () => {
    expect((await service.call('GET', '/docs')).body).toContain('href="/docs/events"');
    expect((await service.call('GET', '/docs/events')).body).toContain('href="/docs"');
  });
});

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect, register, waitForCommand } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';

interface Sent {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: { stringValue?: string; intValue?: number } }[];
  status: { code?: number };
}

/** The spans that a collector receives. */
const spans: Sent[] = [];
const bodies: string[] = [];
let collector: Server;
let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let secret: string;
let commandId: string;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

beforeAll(async () => {
  collector = createServer(async (request, response) => {
    const body = await text(request);
    bodies.push(`${request.url} ${body}`);
    for (const { scopeSpans } of JSON.parse(body).resourceSpans) {
      for (const scope of scopeSpans) spans.push(...scope.spans);
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  at = await startService({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
  owner = await at.owner();
  const registered = await register(owner);
  secret = registered.device_secret;
  const device = await connect(registered, { commands: { turn_on: () => ({ state: { on: true } }) } });
  const requested = await owner.post(
    `/v1/device/${registered.device_id}/command`,
    { action: 'turn_on' },
    { traceparent: `00-${TRACE}-${PARENT}-01` },
  );
  commandId = requested.body.command_id;
  await waitForCommand(owner, commandId, ({ status }) => status === 'succeeded');
  await owner.get(`/v1/devices?token=${secret}`);
  await device.close();
  await at.stop();
});
afterAll(() => new Promise((resolve) => collector.close(resolve)));

const attribute = (span: Sent | undefined, name: string) => {
  const found = span?.attributes.find(({ key }) => key === name);
  return found?.value.stringValue ?? found?.value.intValue;
};

describe('the trace of a command', () => {
  const named = (name: string) => spans.filter((span) => span.traceId === TRACE && span.name === name);
  const eventsOf = (kind: string) =>
    named('turn')
      .filter((span) => attribute(span, 'twinkeep.actor.kind') === kind)
      .map((span) => attribute(span, 'twinkeep.event'));

  it('begins in the trace of the caller and has spans for request, batches, write and acknowledgement', () => {
    const [request] = named('POST /device/{deviceId}/command');
    expect(request).toMatchObject({ parentSpanId: PARENT, kind: 2 });
    expect(attribute(request, 'http.response.status_code')).toBe(202);
    const [requested] = named('send command request');
    expect(requested?.parentSpanId).toBe(request?.spanId);
    const [written] = named('mqtt write cmd');
    expect(written).toMatchObject({ parentSpanId: request?.spanId, kind: 4 });
    expect(attribute(written, 'twinkeep.command.id')).toBe(commandId);
    const words = named('mqtt receive cmd_ack');
    expect(words.length).toBeGreaterThan(0);
    expect(words.every(({ parentSpanId, kind }) => parentSpanId === request?.spanId && kind === 5)).toBe(true);
  });

  it('has a span for each batch that committed a transition of the command or its device', () => {
    expect(eventsOf('command')).toEqual(expect.arrayContaining(['request', 'ack.received']));
    expect(eventsOf('device')).toContain('ack.reported');
    for (const span of named('turn')) {
      expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano));
      expect(attribute(span, 'twinkeep.turn.actors')).toBeGreaterThan(0);
    }
  });

  it('is not joined by a request without a trace context', () => {
    const [lookedUp] = spans.filter(({ name }) => name === 'GET /commands/{id}');
    expect(lookedUp?.traceId).not.toBe(TRACE);
  });

  it('contains no token, secret, path or query', () => {
    const all = bodies.join('\n');
    expect(all).toContain('/v1/traces');
    expect(all).not.toContain(owner.token);
    expect(all).not.toContain(secret);
    expect(all).not.toContain('?token');
  });
});

describe('an unreachable collector', () => {
  it('fails no request and does not delay the shutdown of the service', async () => {
    const service = await startService({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' });
    const { status } = await service.api().get('/version');
    await service.stop();
    expect(status).toBe(200);
  });
});

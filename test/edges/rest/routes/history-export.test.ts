import { get } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dayOf } from '../../../../src/domain/day.ts';
import type { Sample } from '../../../../src/domain/history/sample.ts';
import { eventLoopTurns, eventually } from '../../../support/clock.ts';
import { DAY } from '../../../support/history-model.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { makeResponseValidator } from '../../../support/response-validator.ts';
import { samplesOfDay, storeHistory } from '../../../support/stored-history.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const daysOf = (count: number, samples: (day: number) => Sample[]) => {
  const today = dayOf(service.clock.now());
  return new Map(Array.from({ length: count }, (_, n) => [today - count + n, samples(today - count + n)]));
};
const range = (days: number) => {
  const today = dayOf(service.clock.now()) * DAY;
  return { from: new Date(today - days * DAY).toISOString(), to: new Date(today).toISOString() };
};

/** A device of the tenant with these series. */
async function deviceWith(series: Parameters<typeof storeHistory>[2], tenant = mine): Promise<string> {
  const { device_id: deviceId } = await tenant.register();
  await storeHistory(service.store, { deviceId, tenantId: tenant.tenantId }, series);
  return deviceId;
}

const urlOf = (id: string, query: Record<string, string>, properties: readonly string[]) => {
  const all = [...Object.entries(query), ...properties.map((property) => ['property', property] as [string, string])];
  return `${service.url}/v1/devices/${id}/history/export?${new URLSearchParams(all)}`;
};

async function download(
  id: string,
  query: Record<string, string>,
  properties: readonly string[],
  token = mine.tokens.user,
) {
  const response = await fetch(urlOf(id, query, properties), { headers: { authorization: `Bearer ${token}` } });
  return { status: response.status, headers: response.headers, text: await response.text() };
}
const linesOf = (text: string) =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
const read = async (id: string, property: string, query: Record<string, string>) => {
  const { body } = await mine.call('GET', `/devices/${id}/history?${new URLSearchParams({ property, ...query })}`);
  return body.history;
};

it('as NDJSON has all samples of the range, of one property after the other', async () => {
  const id = await deviceWith({
    level: daysOf(2, (day) => samplesOfDay(day, 6_000, [20, 21.5])),
    'climate.mode': daysOf(1, (day) => samplesOfDay(day, 3, ['auto', 'manual'])),
  });
  const { status, headers, text } = await download(id, range(2), ['level', 'climate.mode']);
  expect(status).toBe(200);
  expect(headers.get('content-type')).toBe('application/x-ndjson');
  expect(headers.get('content-disposition')).toBe(`attachment; filename="history-${id}.ndjson"`);
  const lines = linesOf(text);
  expect(lines).toHaveLength(12_003);
  const first = (await read(id, 'level', { ...range(2), step: 'raw' })).samples;
  expect(first).toHaveLength(10_000);
  expect(lines.slice(0, 10_000)).toEqual(first.map((one: object) => ({ ...one, property: 'level' })));
  const modes = (await read(id, 'climate.mode', { ...range(2), step: 'raw' })).samples;
  expect(lines.slice(12_000)).toEqual(modes.map((one: object) => ({ ...one, property: 'climate.mode' })));
  const changes = linesOf((await download(id, { ...range(2), step: 'changes' }, ['climate.mode', 'level'])).text);
  expect(changes).toHaveLength(12_003);
  expect((await download(id, range(2), ['unknown'])).text).toBe('');
});

it('as CSV has a header, and nothing that a spreadsheet takes for a formula', async () => {
  const name = 'a "name", =1';
  const id = await deviceWith({
    [name]: daysOf(1, (day) => samplesOfDay(day, 5, ['=1+1', 'a"b,c', true, -2.5, 'two\nlines'])),
  });
  const { headers, text } = await download(id, { ...range(1), format: 'csv' }, [name]);
  expect(headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present');
  const [header, ...rows] = text.split('\r\n');
  expect(header).toBe('"at","property","value","received_at","sequence_number"');
  expect(rows.at(-1)).toBe('');
  const at = range(1).from;
  expect(rows[0]).toBe(`"${at}","a ""name"", =1","'=1+1","${at.replace('.000Z', '.020Z')}",1`);
  expect(rows.slice(1, -1).map((row) => row.split('"a ""name"", =1",')[1]?.split(',"20')[0])).toEqual([
    ...['"a""b,c"', '"true"', '-2.5', '"two\nlines"'],
  ]);
  expect((await download(id, { ...range(1), format: 'csv' }, ['none'])).text).toBe(`${header}\r\n`);
});

it('has the intervals that the history shows, also across the parts that are read at a time', async () => {
  const id = await deviceWith({
    level: daysOf(5, (day) => samplesOfDay(day, 1_440, [1, 5, 2])),
    on: daysOf(5, (day) => samplesOfDay(day, 3, [true, false])),
  });
  for (const step of ['30s', '7m', '1h', '1d']) {
    const days = step === '30s' ? 2 : 5;
    for (const property of ['level', 'on']) {
      const { points } = await read(id, property, { ...range(days), step });
      expect(points.length, step).toBeGreaterThan(0);
      const lines = linesOf((await download(id, { ...range(days), step }, [property])).text);
      expect(lines, `${property} ${step}`).toEqual(points.map((point: object) => ({ ...point, property })));
    }
  }
  const { text } = await download(id, { ...range(1), step: '1d', format: 'csv', agg: 'count,states' }, ['on']);
  const states = '"[{""state"":true,""ms"":57600000},{""state"":false,""ms"":28800000}]"';
  expect(text).toBe(`"at","property","count","states"\r\n"${range(1).from}","on",3,${states}\r\n`);
});

describe('the history, by `Accept`', () => {
  let id: string;
  beforeAll(async () => {
    id = await deviceWith({ level: daysOf(2, (day) => samplesOfDay(day, 700, [20, 21.5])) });
  });
  const accepting = async (accept: string, query: Record<string, string>, token = mine.tokens.user) => {
    const url = `${service.url}/v1/devices/${id}/history?${new URLSearchParams({ property: 'level', ...query })}`;
    const headers = { authorization: `Bearer ${token}`, accept };
    const response = await fetch(url, { headers });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };

  it('is the export in the preferred format, otherwise JSON', async () => {
    for (const [accept, format] of [
      ['text/csv', 'csv'],
      ['application/json;q=0.5, text/csv, */*;q=0.1', 'csv'],
      ['application/x-ndjson, text/csv;q=0.9', 'ndjson'],
    ] as const) {
      for (const step of [{}, { step: '1h', agg: 'min,max,mean,last,count' }, { step: 'changes' }]) {
        const exported = await download(id, { ...range(2), ...step, format }, ['level']);
        const { status, headers, text } = await accepting(accept, { ...range(2), ...step });
        expect(status).toBe(200);
        expect(text.split('\n').length, accept).toBeGreaterThan(48);
        expect(text, accept).toBe(exported.text);
        for (const name of ['content-type', 'content-disposition'])
          expect(headers.get(name)).toBe(exported.headers.get(name));
        expect(headers.get('vary')).toBe('Accept');
      }
    }
    const { text } = await accepting('text/csv', { ...range(1), step: '1d', agg: 'min,max,mean,last,count' });
    expect(text).toBe(
      `"at","property","min","max","mean","last","count"\r\n"${range(1).from}","level",20,21.5,20.75,21.5,700\r\n`,
    );
    const json = await read(id, 'level', { ...range(1), step: '1d' });
    for (const accept of ['*/*', 'application/json', 'text/html', 'text/csv;q=0', 'application/*, text/csv;q=0.5']) {
      const { headers, text } = await accepting(accept, { ...range(1), step: '1d' });
      expect([headers.get('content-type'), headers.get('vary')], accept).toEqual(['application/json', 'Accept']);
      expect(JSON.parse(text).history, accept).toEqual(json);
    }
  });

  it('has the parameters, the refusals and the audit of the export', async () => {
    const codeOf = async (...of: Parameters<typeof accepting>) => {
      const { status, headers, text } = await accepting(...of);
      expect(headers.get('content-type')).toBe('application/problem+json');
      return [status, JSON.parse(text).errors?.[0]?.path ?? JSON.parse(text).code];
    };
    expect(await codeOf('text/csv', { limit: '5' })).toEqual([400, 'limit']);
    expect(await codeOf('text/csv', { format: 'csv' })).toEqual([400, 'format']);
    expect(await codeOf('application/json', { format: 'csv' })).toEqual([400, 'format']);
    expect(await codeOf('text/csv', {}, mine.tokens.viewer)).toEqual([403, 'FORBIDDEN_ROLE']);
    const exportsOf = async () => {
      const { body } = await mine.call('GET', `/audit?subject=device:${id}&action=exportDeviceHistory&limit=200`);
      return body.entries.filter(({ outcome }: { outcome: string }) => outcome === 'done');
    };
    const before = (await exportsOf()).length;
    await accepting('application/json', range(1));
    await accepting('text/csv', range(1));
    expect((await exportsOf()).length).toBe(before + 1);
  });

  it('is described with all of its media types', async () => {
    const { body } = await service.call('GET', '/openapi.json');
    const conforms = makeResponseValidator(body);
    for (const accept of ['text/csv', 'application/x-ndjson', 'application/json']) {
      const { status, headers, text } = await accepting(accept, range(1));
      const type = headers.get('content-type')?.split(';')[0] ?? '';
      expect(type).toBe(accept);
      const shown = type === 'application/json' ? JSON.parse(text) : text;
      expect(conforms('GET', '/devices/{id}/history', { status, type, body: shown })).toBeNull();
    }
  });
});

it('is for users with the scope, of the tenant and of the device', async () => {
  const id = await deviceWith({ level: daysOf(1, (day) => samplesOfDay(day, 2, [1])) });
  const other = await makeTestTenant(service);
  const far = (await mine.register()).device_id;
  const key = async (body: object) => (await mine.call('POST', '/auth/api-keys', { name: 'k', ...body })).body.key;
  const scopes = ['read:history'];
  const codeOf = async (token: string) => {
    const { status, text } = await download(id, range(1), ['level'], token);
    return status === 200 ? status : JSON.parse(text).code;
  };
  expect(await codeOf(mine.tokens.viewer)).toBe('FORBIDDEN_ROLE');
  expect(await codeOf(other.tokens.owner)).toBe('NOT_FOUND');
  const asKey = async (body: object) => {
    const { status, body: answer } = await service.call(
      'GET',
      urlOf(id, range(1), ['level']).slice(service.url.length),
      {
        headers: { 'x-api-key': await key(body) },
      },
    );
    return status === 200 ? status : answer.code;
  };
  expect(await asKey({ scopes: ['read:devices'] })).toBe('INSUFFICIENT_SCOPE');
  expect(await asKey({ scopes, restrict_to: { devices: [far] } })).toBe('NOT_FOUND');
  expect(await asKey({ scopes, restrict_to: { devices: [id] } })).toBe(200);
  for (const query of [
    '',
    '?property=a&property=a',
    '?property=a&step=1x',
    '?property=a&agg=sum',
    '?property=a&format=xml',
  ])
    expect((await mine.call('GET', `/devices/${id}/history/export${query}`)).status, query).toBe(400);
});

it('is in the audit log before its first row, and with its rows at its end', async () => {
  const id = await deviceWith({ level: daysOf(1, (day) => samplesOfDay(day, 700, [1])) });
  const { from, to } = range(1);
  await download(id, { from, to, format: 'csv' }, ['level', 'a/b']);
  const entries = async (query: string) => (await mine.call('GET', `/audit?${query}`)).body.entries;
  expect(await entries(`subject=device:${id}&action=exportDeviceHistory`)).toMatchObject([
    { via: 'rest', outcome: 'done', count: 1 },
  ]);
  const subjects = [`history:${id}/level/${from}/${to}`, `history:${id}/a%2Fb/${from}/${to}`];
  const rows = await eventually(async () => {
    const found = await entries('action=exportHistoryRows');
    const own = found.filter(({ subject }: { subject: string }) => subjects.includes(subject));
    return own.length === 2 && own;
  });
  const countOf = (subject: string | undefined) =>
    rows.find((one: { subject: string }) => one.subject === subject)?.count;
  expect(subjects.map(countOf)).toEqual([700, 0]);
});

it('runs twice at the same time for a tenant', async () => {
  const id = await deviceWith({ level: daysOf(1, (day) => samplesOfDay(day, 2, [1])) });
  const { history } = service.store;
  const { series } = history;
  const held: (() => void)[] = [];
  history.series = async (...args) => {
    await new Promise<void>((resolve) => held.push(resolve));
    return series(...args);
  };
  const running = [download(id, range(1), ['level']), download(id, range(1), ['level'])];
  await eventually(() => held.length === 2);
  const third = await download(id, range(1), ['level']);
  history.series = series;
  for (const release of held) release();
  expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200]);
  expect(third.status).toBe(429);
  expect(third.headers.get('retry-after')).toBe('10');
  expect(JSON.parse(third.text).detail).toContain('simultaneous history exports of this tenant is 2');
});

it('is refused with 503 while the device has more reports than can be read', async () => {
  const id = await deviceWith({ level: daysOf(1, (day) => samplesOfDay(day, 2, [1])) });
  const { history } = service.store;
  const { series } = history;
  history.series = async (...args) => (await series(...args)).map((one) => ({ ...one, complete: false }));
  const { status, text } = await download(id, range(1), ['level']);
  history.series = series;
  expect([status, JSON.parse(text).code]).toEqual([503, 'OVERLOADED']);
});

it('reads no further than its client, and ends when the client leaves', async () => {
  const properties = Array.from({ length: 20 }, (_, n) => `level_${n}`);
  const days = daysOf(5, (day) => samplesOfDay(day, 5_000, [1, 2]));
  const id = await deviceWith(Object.fromEntries(properties.map((property) => [property, days])));
  const { history } = service.store;
  const { series } = history;
  let statements = 0;
  history.series = (...args) => {
    statements += 1;
    return series(...args);
  };
  // 500,000 rows are 45 MB. The sockets of both ends hold a part of them.
  const request = get(urlOf(id, range(5), properties), { headers: { authorization: `Bearer ${mine.tokens.user}` } });
  await new Promise((resolve) => request.once('response', resolve));
  await eventually(async () => {
    const before = statements;
    await eventLoopTurns();
    return before > 0 && statements === before;
  });
  expect(statements).toBeLessThan(30);
  request.on('error', () => {});
  request.destroy();
  await eventually(() => service.services.historyExports.sizes().history_exports === 0);
  const after = statements;
  await eventLoopTurns();
  history.series = series;
  expect(statements).toBe(after);
  const isOfThis = ({ subject }: { subject: string }) => subject.startsWith(`history:${id}/`);
  const sent = await eventually(async () => {
    const { body } = await mine.call('GET', '/audit?action=exportHistoryRows&limit=200');
    return body.entries.some(isOfThis) && body.entries.filter(isOfThis);
  });
  expect(sent.reduce((sum: number, { count }: { count: number }) => sum + count, 0)).toBeLessThan(500_000);
});

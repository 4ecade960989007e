import { readFileSync } from 'node:fs';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SERIES_PER_REQUEST, trendsQuery } from '../../console/src/charts/trends.ts';
import type { Device } from '../edges/mqtt/client.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import {
  layoutProblems,
  openConsolePage,
  PHONES,
  saveScreenshot,
  startConsoleService,
} from '../support/console-page.ts';
import { register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import type { TestService } from '../support/service.ts';

const MINUTE = 60_000;
const REPORTS = 70;

describe.runIf(hasChromium())('charts of the history in the console', () => {
  let at: TestService;
  let browser: Browser;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let device: Device;
  let id: string;
  let sequence = 0;

  const report = (state: Record<string, number | boolean | string>) =>
    device.send('state', { state }, { sequence: ++sequence });

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
    owner = await at.owner();
    const registered = await register(owner, { device_type: 'climate', name: 'Hall thermostat' });
    id = registered.device_id;
    // The reports are of the last six hours, up to the browser's time.
    at.clock.advance(-REPORTS * 5 * MINUTE);
    device = await connectRawDevice(at, registered);
    for (let n = 0; n < REPORTS; n += 1) {
      at.clock.advance(5 * MINUTE);
      // No reports for an hour.
      if (n > 40 && n < 53) continue;
      const temperature = 20 + Math.round(20 * Math.sin(n / 8)) / 10;
      await report({
        ...{ temperature, target_celsius: n < 30 ? 19 : 21, humidity: 45 + (n % 9), heating: temperature < 20.5 },
        mode: n < 25 ? 'eco' : 'heat',
      });
    }
  });
  afterAll(async () => {
    device?.mqtt.end(true);
    await browser?.close();
    await at?.stop();
  });

  const address = (properties: readonly string[], more = '') =>
    `/devices/${id}/history?${properties.map((name) => `property=${name}`).join('&')}&range=6h${more}`;

  it('have sparklines within the cost of a document of GraphQL', async () => {
    const properties = Array.from({ length: SERIES_PER_REQUEST }, (_, n) => [`p${n}`, 'temperature']);
    const variables = Object.fromEntries([['id', id], ...properties]);
    const { body } = await owner.post('/graphql', { query: trendsQuery(SERIES_PER_REQUEST), variables });
    expect(body.errors).toBeUndefined();
    expect(body.data.p7.points.length).toBeGreaterThan(10);
  });

  it('are opened from the sparklines of a device, and follow its reports', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${id}`);
    const link = page.getByRole('link', { name: 'Chart of temperature' });
    await link.locator('svg').waitFor();
    await page.getByRole('link', { name: 'Chart of heating' }).locator('svg').waitFor();
    await page.getByRole('link', { name: 'Chart of mode' }).getByText('Chart').waitFor();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    await page.setViewportSize({ width: 1_280, height: 860 });
    await link.click();
    const chart = page.getByRole('application', { name: 'History of Hall thermostat' });
    await chart.locator('canvas').waitFor();
    expect(new URL(page.url()).search).toBe('?property=temperature');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    await report({ temperature: 22.5 });
    await chart.getByText(/22\.5\s°C/).waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show several properties on one time axis, with a cursor that the arrow keys move', async () => {
    const command = await owner.post(`/v1/device/${id}/command`, {
      action: 'set_temperature',
      params: { celsius: 22 },
    });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, height: 1_040 },
    });
    await open(address(['temperature', 'target_celsius', 'humidity', 'mode', 'heating']));
    const chart = page.getByRole('application', { name: 'History of Hall thermostat' });
    // The temperatures have one axis.
    await chart.locator('canvas').nth(3).waitFor();
    expect(await chart.locator('canvas').count()).toBe(4);
    await saveScreenshot(page, 'history');
    await chart.focus();
    await page.keyboard.press('Home');
    const announced = chart.getByRole('status').filter({ hasText: 'Mode eco' });
    await announced.waitFor();
    expect(await announced.textContent()).toMatch(/Temperature 20\s°C; Target 19\s°C; Humidity 45.*; Heating yes/);
    await page.keyboard.press('End');
    await chart.getByRole('status').filter({ hasText: 'Mode heat' }).waitFor();
    await page.keyboard.press('+');
    await page.waitForURL(/from=/);
    await page.keyboard.press('Escape');
    await page.waitForURL(/range=6h/);
    expect(await layoutProblems(page)).toEqual([]);
    await chart.getByRole('link', { name: /Set temperature/ }).click();
    await page.waitForURL(new RegExp(`/commands/${command.body.command_id}$`));
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('have labels and units of the manifest, steps for a number that lasts, and telemetry', async () => {
    const registered = await register(owner, { device_type: 'smart_light', name: 'Boiler' });
    const { device_id } = registered;
    const properties = {
      setting: { label: 'Wanted pressure', unit: 'bar', history: 'change' },
      off: { history: 'off' },
    };
    const manifest = { category: 'light', capabilities: [], properties };
    expect((await owner.post(`/v1/devices/${device_id}/manifest`, manifest)).status).toBe(201);
    const boiler = await connectRawDevice(at, registered);
    const ago = (minutes: number) => ({ timestamp: at.clock.now() - minutes * MINUTE });
    await boiler.send('heartbeat', { rssi: -61, free_heap: 2_048 });
    await boiler.send('state', { state: { setting: 3, off: 1 } }, ago(4));
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    // The only value is before the time that is shown.
    const [from, to] = [2, 1].map((minutes) => new Date(ago(minutes).timestamp).toISOString());
    await open(`/devices/${device_id}/history?property=setting&property=off&from=${from}&to=${to}`);
    const chart = page.getByRole('application', { name: 'History of Boiler' });
    await chart
      .getByRole('listitem')
      .filter({ hasText: /Wanted pressure\s*3\sbar/ })
      .waitFor();
    await chart.locator('canvas').waitFor();
    expect(await chart.locator('canvas').count()).toBe(1);
    await page.getByText('Add property').click();
    await page.getByLabel('Property', { exact: true }).selectOption({ label: 'Free memory' });
    await page.waitForURL(/telemetry\.free_heap/);
    await open(`/devices/${device_id}`);
    await page.getByRole('link', { name: 'Chart of signal' }).click();
    await chart.getByText(/-61\sdBm/).waitFor();
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    // The second one is sent after the chart was read again because the stream had been opened, so the stream brings it.
    for (const rssi of [-56, -55]) {
      await boiler.send('heartbeat', { rssi, free_heap: 2_048 });
      await chart.getByText(new RegExp(`${rssi}\\sdBm`)).waitFor();
    }

    const tileOf = (kind: string, x: number) => ({
      ...{ id: kind, kind, x, y: 0, w: 3, h: 2, title: kind, device_id, property: '$telemetry.rssi' },
    });
    const { body } = await owner.post('/v1/dashboards', {
      name: 'Signal',
      tiles: [tileOf('value', 0), tileOf('sparkline', 3)],
    });
    await open(`/dashboards/${body.dashboard.id}`);
    const shows = (kind: string, value: RegExp) =>
      page.locator(`[data-kind="${kind}"] .tile-value`).getByText(value).waitFor();
    for (const kind of ['value', 'sparkline']) await shows(kind, /^-55\sdBm$/);
    await page
      .locator('[data-kind="value"]')
      .getByText(/ · Signal/)
      .waitFor();
    for (const rssi of [-49, -48]) {
      await boiler.send('heartbeat', { rssi, free_heap: 2_048 });
      for (const kind of ['value', 'sparkline']) await shows(kind, new RegExp(`^${rssi}\\sdBm$`));
    }
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByRole('button', { name: 'Add a tile …' }).click();
    await page.getByRole('dialog').getByLabel('Shows').selectOption('value');
    await page.getByRole('dialog').getByLabel('Device').selectOption(device_id);
    await page.getByRole('dialog').getByLabel('Property').selectOption({ label: 'Signal (telemetry)' });
    boiler.mqtt.end(true);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('have steps in the sparklines of a number that an action sets, on the page of the device and in tiles', async () => {
    const sparkline = (tileId: string, property: string, x: number) => ({
      ...{ id: tileId, kind: 'sparkline', x, y: 0, w: 3, h: 2, title: property, device_id: id, property },
    });
    const tiles = [sparkline('a', 'target_celsius', 0), sparkline('b', 'temperature', 3)];
    const { body } = await owner.post('/v1/dashboards', { name: 'Trends', tiles });
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token });
    // The manifest may be loaded after the points.
    const steps = (place: string) => page.locator(`${place} path[d*=V]`).waitFor({ state: 'attached' });
    const pathOf = (place: string) => page.locator(`${place} path[d*=L]`).getAttribute('d');
    await open(`/devices/${id}`);
    await steps('[aria-label="Chart of target"]');
    expect(await pathOf('[aria-label="Chart of temperature"]')).not.toContain('V');
    await open(`/dashboards/${body.dashboard.id}`);
    await steps('.board-tile:nth-child(1) .tile-trend');
    expect(await pathOf('.board-tile:nth-child(2)')).not.toContain('V');
    await close();
  });

  it('are zoomed and moved with the mouse, and compared with the day before', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(address(['humidity']));
    const plot = page.locator('.plot .u-over');
    await plot.waitFor();
    const box = (await plot.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const [left, middle] = [box.x + box.width / 4, box.y + box.height / 2];
    await page.mouse.move(left, middle);
    await page.mouse.down();
    await page.mouse.move(left + box.width / 2, middle, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL(/from=/);
    const length = () => {
      const query = new URL(page.url()).searchParams;
      return (Date.parse(query.get('to') ?? '') - Date.parse(query.get('from') ?? '')) / MINUTE;
    };
    expect(length()).toBeGreaterThan(170);
    expect(length()).toBeLessThan(190);
    const zoomedTo = page.url();
    await page.getByRole('button', { name: '‹ Earlier' }).click();
    await page.waitForURL((url) => url.href !== zoomedTo);
    const earlier = page.url();
    await page.getByLabel('Compare with').selectOption({ label: 'yesterday' });
    await page.waitForURL(/compare=day/);
    expect(page.url().startsWith(earlier)).toBe(true);
    // There are no reports of the day before.
    await page.mouse.move(left, middle);
    await page.getByText('earlier —').waitFor();

    // Each movement is in the address.
    const changed = async (change: () => Promise<unknown>): Promise<void> => {
      const before = page.url();
      await change();
      await page.waitForURL((url) => url.href !== before);
    };
    const touch = (type: string, clientX: number) =>
      plot.dispatchEvent(type, { pointerId: 7, pointerType: 'touch', clientX, clientY: middle });
    const shown = length();
    await changed(async () => {
      await touch('pointerdown', left);
      await touch('pointermove', left + 80);
      await touch('pointerup', left + 80);
    });
    expect(Math.abs(length() - shown)).toBeLessThan(0.1);
    await page.keyboard.down('Control');
    await changed(() => page.mouse.wheel(0, -100));
    await page.keyboard.up('Control');
    expect(length()).toBeLessThan(shown - 10);
    await changed(() => plot.dblclick());
    expect(new URL(page.url()).searchParams.get('range')).toBe('6h');
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('have properties of other devices, by their units', async () => {
    const registered = await register(owner, { device_type: 'climate', name: 'Cellar sensor' });
    const other = await connectRawDevice(at, registered);
    await other.send('state', { state: { humidity: 62, note: 'damp' } }, { sequence: 1 });
    other.mqtt.end(true);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(address(['humidity']));
    await page.locator('.plot canvas').waitFor();
    await page.getByText('Add property').click();
    await page.getByLabel('Device', { exact: true }).selectOption({ label: 'Cellar sensor' });
    await page.getByLabel('Property', { exact: true }).selectOption({ label: 'Humidity' });
    const chart = page.getByRole('application');
    await chart.getByText('Cellar sensor: Humidity').waitFor();
    await chart.getByText(/^62\s%$/).waitFor();
    expect(await chart.locator('canvas').count()).toBe(1);
    expect(new URL(page.url()).searchParams.get('series')).toBe(`${registered.device_id}:humidity`);
    await page.getByRole('button', { name: 'Remove Hall thermostat: Humidity' }).click();
    await chart.getByText('Humidity', { exact: true }).waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('are shown as a table, and saved as CSV and as a picture', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(address(['humidity', 'mode']));
    await page.locator('.plot canvas').nth(1).waitFor();
    const picture = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save picture' }).click();
    const png = readFileSync(await (await picture).path());
    expect(png.subarray(1, 4).toString()).toBe('PNG');
    const file = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save CSV' }).click();
    const records = readFileSync(await (await file).path(), 'utf8').split('\r\n');
    expect(records[0]).toBe('\ufeff"Time","Device","Device ID","Property","Unit","Value","Minimum","Maximum"');
    expect(records.filter((record) => record.includes('"humidity"')).length).toBeGreaterThan(50);
    expect(records.filter((record) => record.includes('"mode","","eco"'))).toHaveLength(1);
    await page.getByRole('button', { name: 'Show table' }).click();
    await page.waitForURL(/view=table/);
    const table = page.getByRole('table', { name: 'Values' });
    await table
      .getByRole('row', { name: /Humidity \d+\s%/ })
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Remove Humidity' }).click();
    await table
      .getByRole('row', { name: /Mode heat/ })
      .first()
      .waitFor();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

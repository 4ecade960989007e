import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { decodeQR } from 'qr/decode.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { eventually } from '../support/clock.ts';
import { accessibility, layoutProblems, openConsolePage, startConsoleService } from '../support/console-page.ts';
import { compileSketch, cxx, runSketch } from '../support/esp32.ts';
import type { TestService } from '../support/service.ts';

/** Pixels of a module in the picture that is decoded. */
const SCALE = 4;

/** The text of the QR code in the page, whose dark modules are squares of one unit. */
async function readQrCode(page: Page): Promise<string> {
  const path = `${await page.locator('.qr path').getAttribute('d')}`;
  const [, , width] = `${await page.locator('.qr').getAttribute('viewBox')}`.split(' ').map(Number);
  const side = Number(width) * SCALE;
  const data = new Uint8Array(side * side * 4).fill(255);
  for (const [, x, y] of path.matchAll(/M(\d+) (\d+)h1v1h-1z/g)) {
    for (let pixel = 0; pixel < SCALE * SCALE; pixel++) {
      const row = Number(y) * SCALE + Math.floor(pixel / SCALE);
      const column = Number(x) * SCALE + (pixel % SCALE);
      data.fill(0, (row * side + column) * 4, (row * side + column) * 4 + 3);
    }
  }
  return decodeQR({ width: side, height: side, data });
}

describe.runIf(hasChromium())('a device on a board that is added in the console', () => {
  let at: TestService;
  let browser: Browser;
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-sketch-'));

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function addDevice(page: Page): Promise<void> {
    await page.getByRole('button', { name: 'Add device …' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Board');
    await page.getByLabel('Device type').fill('smart_light');
    await page.getByRole('button', { name: 'Add device', exact: true }).click();
    await page.getByText('Waiting for its first message').waitFor();
  }

  it('has a QR code with its values, on a large and on a small screen', async () => {
    const owner = await at.owner();
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/devices');
    const requests: string[] = [];
    await addDevice(page);
    page.on('request', (request) => requests.push(request.url()));
    await page.getByText('QR code', { exact: true }).click();
    await page.locator('.qr').scrollIntoViewIfNeeded();
    const secret = `${await page.locator('.secret').textContent()}`;
    const { devices } = (await owner.get('/v1/devices')).body;
    expect(JSON.parse(await readQrCode(page))).toEqual({
      ...{ device_id: devices[0].id, tenant_id: owner.tenantId, device_secret: secret, key_version: 1 },
      mqtt_url: expect.stringMatching(/^mqtt:\/\//),
    });
    // Nothing is requested with the values.
    expect(requests.filter((url) => !url.startsWith(at.url) || url.includes(secret))).toEqual([]);
    expect(await layoutProblems(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it.runIf(cxx !== null)('connects with the sketch, carries out commands, and connects again', async () => {
    const owner = await at.owner();
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/devices');
    await addDevice(page);
    await page.getByRole('radio', { name: 'Arduino', exact: true }).check();
    await page.getByText('such as HOST=192.168.1.2 npm start').waitFor();
    await page.waitForFunction("document.querySelector('.program').value !== ''");
    const sketch = await page.getByLabel('Program in Arduino').inputValue();
    expect(await accessibility(page)).toEqual([]);
    compileSketch(folder, sketch.replace('USE_TLS 0', 'USE_TLS 1'), { checkOnly: true });
    const [, host] = /HOST\[\] = "(.*)"/.exec(sketch) ?? [];
    const [, port] = /PORT = (\d+)/.exec(sketch) ?? [];
    const running = runSketch(compileSketch(folder, sketch), `mqtt://${host}:${port}`);
    try {
      await page.getByText('The device is connected.').waitFor();
      const { id } = (await owner.get('/v1/devices')).body.devices[0];
      const device = async () => (await owner.get(`/v1/devices/${id}`)).body.device;
      await eventually(async () => (await device()).state.brightness === 0);
      const command = async (action: string, params: object): Promise<string> => {
        const sent = await owner.post(`/v1/device/${id}/command`, { action, params });
        const statusOf = async () => (await owner.get(`/v1/commands/${sent.body.command_id}`)).body.command.status;
        await eventually(async () => ['succeeded', 'failed'].includes(await statusOf()));
        return statusOf();
      };
      expect(await command('set_brightness', { level: 40 })).toBe('succeeded');
      expect((await device()).state).toMatchObject({ on: true, brightness: 40 });
      expect(running.led).toEqual([102]);
      expect(await command('set_color_temperature', { kelvin: 3_000 })).toBe('failed');

      running.dropConnection();
      // It may be offline for a shorter time than between two requests.
      await eventually(async () => {
        const { connections } = (await owner.get(`/v1/devices/${id}/activity`)).body.activity;
        return connections.filter(({ event }: { event: string }) => event === 'hello').length === 2;
      });
      expect(await command('turn_off', {})).toBe('succeeded');
      expect((await device()).state).toMatchObject({ on: false });
      const { activity } = (await owner.get(`/v1/devices/${id}/activity`)).body;
      expect(JSON.stringify(activity)).not.toContain('SIGNATURE');
    } finally {
      await running.stop();
    }
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

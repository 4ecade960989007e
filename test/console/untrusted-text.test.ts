import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Device } from '../edges/mqtt/client.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { openConsolePage, overflowsHorizontally, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import type { TestService } from '../support/service.ts';

const SCRIPT = '<img src=x onerror=alert(1)>';
const NAME = `${SCRIPT}${'W'.repeat(100 - SCRIPT.length)}`;

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let browser: Browser;
let speaker: Device | undefined;

beforeAll(async () => {
  at = await startConsoleService();
  owner = await at.owner('ada');
  browser = await connectBrowser();
});
afterAll(async () => {
  speaker?.mqtt.end(true);
  await browser?.close();
  await at?.stop();
});

it.runIf(hasChromium())(
  'names given by devices and users are shown as text, and break no page of the console',
  async () => {
    const registered = await register(owner, { name: NAME, metadata: { [NAME.slice(0, 60)]: SCRIPT } });
    const id = registered.device_id;
    speaker = await connectRawDevice(at, registered);
    const state = {
      on: false,
      [`${SCRIPT}${'k'.repeat(200)}`]: 'v'.repeat(5_000),
      link: 'javascript:alert(1)',
      __proto: {},
    };
    await speaker.send('state', { state, full: true }, { sequence: 1 });
    const { body } = await owner.post('/v1/plans', {
      name: NAME,
      steps: [{ id: 'a'.repeat(32), device_id: id, action: 'turn_on' }],
    });
    const { body: sent } = await owner.post(`/v1/device/${id}/command`, { action: 'turn_on' });
    expect([body.plan?.name, typeof sent.command_id]).toEqual([NAME, 'string']);

    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token, width: 400 });
    const dialogs: string[] = [];
    page.on('dialog', (dialog) => {
      dialogs.push(dialog.message());
      void dialog.dismiss();
    });
    for (const path of [
      '/devices',
      `/devices/${id}`,
      '/plans',
      `/plans/${body.plan.id}`,
      `/commands/${sent.command_id}`,
    ]) {
      await open(path);
      await page.getByText(SCRIPT, { exact: false }).first().waitFor({ state: 'attached' });
      expect([path, await overflowsHorizontally(page)]).toEqual([path, false]);
      expect(await page.locator('img[src=x], a[href^="javascript:"]').count()).toBe(0);
    }
    await open(`/devices/${id}`);
    await page.getByText('(5,000 characters)').click();
    expect(await page.locator('details[open]').textContent()).toContain('v'.repeat(5_000));
    expect(dialogs).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  },
);

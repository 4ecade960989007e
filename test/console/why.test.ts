import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { eventually } from '../support/clock.ts';
import { accessibility, layoutProblems, openConsolePage, startConsoleService } from '../support/console-page.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('the explanation of a value in the console', () => {
  let at: TestService;
  let browser: Browser;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let device: Device;
  let deviceId: string;
  let commandId: string;

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
    owner = await at.owner();
    const registered = await register(owner, { device_type: 'smart_lock', name: 'Front door' });
    deviceId = registered.device_id;
    device = await connect(registered, {
      state: { locked: true, radio: { rssi: -60, channel: 6 }, events: [1] },
      commands: { unlock: () => ({ state: { locked: false } }) },
    });
    await eventually(async () => (await owner.get(`/v1/devices/${deviceId}`)).body.device.state.locked === true);
    commandId = (await owner.post(`/v1/device/${deviceId}/command`, { action: 'unlock' })).body.command_id;
    expect((await owner.post(`/v1/confirmations/${commandId}/approve`)).status).toBe(202);
    await waitForCommand(owner, commandId, ({ status }) => status === 'succeeded');
  });
  afterAll(async () => {
    await device?.close();
    await browser?.close();
    await at?.stop();
  });

  it('is a chain of sentences with links, opened and closed with the keyboard', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${deviceId}`);
    const why = page.getByRole('button', { name: 'Why? locked', exact: false });
    await why.focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.getByText('A command caused it: the device reported the value when it acknowledged').waitFor();
    await dialog.getByText('The device reported false instead of true').waitFor();
    expect(await dialog.getByRole('listitem').nth(1).textContent()).toContain('by you');
    const link = dialog.getByRole('link', { name: 'Unlock succeeded' });
    expect(await link.getAttribute('href')).toMatch(new RegExp(`/commands/${commandId}$`));
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect(await why.evaluate((element) => element === document.activeElement)).toBe(true);

    // A value in an object is chosen; a list has no history.
    await page.getByRole('button', { name: 'Why? radio' }).click();
    await dialog.getByRole('combobox', { name: 'Value' }).selectOption('radio.channel');
    await dialog.getByText('The device reported 6').waitFor();
    await dialog.getByText('the device reported it by itself').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    expect(await page.getByRole('button', { name: /^Why\?/ }).count()).toBe(2);
    expect(await layoutProblems(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

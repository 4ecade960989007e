import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { layoutProblems, openConsolePage, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('the timeline in the console', () => {
  let at: TestService;
  let browser: Browser;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let deviceId: string;
  let roomId: string;

  const command = async (action: string) =>
    (await owner.post(`/v1/device/${deviceId}/command`, { action })).body.command_id as string;

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
    owner = await at.owner();
    roomId = (await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: 'Hall' })).body.id;
    deviceId = (await register(owner, { device_type: 'smart_lock', name: 'Front door', room_id: roomId })).device_id;
    await command('lock');
    await command('fly');
    const unlock = await command('unlock');
    at.clock.advance(1_000);
    expect((await owner.post(`/v1/confirmations/${unlock}/refuse`, { reason: 'Not at night' })).status).toBe(200);
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  it('lists the events of a device by day, follows new ones, and is filtered with the keyboard', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${deviceId}`);
    const section = page.getByRole('region', { name: 'Timeline', exact: true });
    await section.getByText('The confirmation of “Unlock” was refused: Not at night').waitFor();
    const [newest] = (await owner.get(`/v1/devices/${deviceId}/timeline`)).body.entries;
    const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'Europe/Berlin' });
    await section.getByRole('heading', { level: 3, name: day.format(new Date(newest.at)) }).waitFor();
    const entries = section.getByRole('listitem');
    expect(await entries.count()).toBe(4);
    expect(await entries.first().textContent()).toContain('by you');

    // A new event is shown without a reload.
    await command('lock');
    await section.getByText('Lock was dispatched').nth(1).waitFor();

    const chip = section.getByRole('button', { name: 'Refusals' });
    await chip.focus();
    await page.keyboard.press('Space');
    await section.getByText(/^Fly was refused/).waitFor();
    await section.getByText('Lock was dispatched').first().waitFor({ state: 'detached' });
    expect(await chip.getAttribute('aria-pressed')).toBe('true');
    await chip.press('Enter');
    await section.getByText('Lock was dispatched').nth(1).waitFor();
    expect(await layoutProblems(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('lists the events of a home and of a room with their devices', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/homes/${owner.homeId}`);
    const section = page.getByRole('region', { name: 'Timeline', exact: true });
    await section.getByRole('link', { name: 'Front door' }).first().waitFor();
    await page.getByRole('row', { name: /^Hall/ }).getByRole('link', { name: 'Hall', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Hall' }).waitFor();
    await section.getByRole('link', { name: /^Fly was refused/ }).waitFor();
    expect(await layoutProblems(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

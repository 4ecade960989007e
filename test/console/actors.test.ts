import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasChromium } from '../support/chromium.ts';
import { accessibility, look, openConsole, picture } from '../support/console.ts';
import { startService, type TestService } from '../support/service.ts';
import { inhabit, type SimulatedHome } from '../support/simulated-home.ts';

describe.runIf(hasChromium())('the actors in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let home: SimulatedHome;
  let browser: Browser;
  let [light, lock] = ['', ''];

  beforeAll(async () => {
    at = await startService();
    owner = await at.owner('ada');
    home = await inhabit(at, owner);
    [light, lock] = [home.idOf('set_brightness'), home.idOf('unlock')];
    browser = await openConsole();
  });
  afterAll(async () => {
    await browser?.close();
    await home?.stop();
    await at?.stop();
  });

  const command = async (device: string, action: string, params = {}) =>
    (await owner.post(`/v1/device/${device}/command`, { action, params })).body;

  it('lists them all by name, with the states that they are in', async () => {
    const { page, go, complaints, close } = await look(browser, at, { token: owner.token });
    await go('/actors');
    const row = page.getByRole('row', { name: /Front door/i });
    await row.getByText('online').waitFor();
    await page.getByText(/^\d+ actors$/).waitFor();
    await picture(page, 'actors');
    expect(await accessibility(page)).toEqual([]);
    expect(complaints()).toEqual([]);
    await close();
  });

  it('tells of what happens while somebody looks on', async () => {
    const { page, go, close } = await look(browser, at, { token: owner.token });
    await go('/actors?kind=command');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    const { command_id } = await command(light, 'set_brightness', { level: 40 });
    const row = page.getByRole('row').filter({ hasText: command_id.slice(-8) });
    await row.getByText('succeeded').waitFor();
    await close();
  });

  it('draws a device, lit where it is, and says what it does and why', async () => {
    const { page, go, complaints, close } = await look(browser, at, { token: owner.token, height: 1_100 });
    await go(`/actors/device/${light}`);
    await page.getByRole('img', { name: 'link: now online' }).waitFor();
    await page.getByRole('img', { name: 'administration: now one key' }).waitFor();
    await page.getByText('Signs in, reports and is commanded.').first().waitFor();
    await picture(page, 'device');
    expect(await accessibility(page)).toEqual([]);
    expect(complaints()).toEqual([]);
    await close();
  });

  it('shows a command that waits, with the time it has left', async () => {
    const { command_id } = await command(lock, 'unlock');
    const { page, go, close } = await look(browser, at, { token: owner.token, height: 1_100 });
    await go(`/actors/command/${command_id}`);
    await page.getByRole('img', { name: /now awaiting confirmation/ }).waitFor();
    await page.getByText(/in 4:5\d/).waitFor();
    await picture(page, 'command');
    expect(await accessibility(page)).toEqual([]);
    await close();
  });
});

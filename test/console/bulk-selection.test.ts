import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, layoutProblems, openConsolePage, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';
import { type SimulatedHome, startSimulatedHome } from '../support/simulated-home.ts';

describe.runIf(hasChromium())('several devices that are selected in the console', () => {
  let at: TestService;
  let browser: Browser;
  const homes: SimulatedHome[] = [];

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    for (const home of homes) await home.stop();
    await at?.stop();
  });

  const click = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
  const select = (page: Page, name: string) => page.getByRole('checkbox', { name: `Select ${name}` }).check();
  const outcomeOf = (page: Page, name: string, text: string) =>
    page.getByRole('list', { name: 'Outcomes' }).getByRole('listitem').filter({ hasText: name }).getByText(text);

  it('are moved, with the outcome for each, on a large and on a small screen', async () => {
    const owner = await at.owner();
    const cabin = (await owner.post('/v1/homes', { home_name: 'Cabin' })).body.id;
    const room = (await owner.post(`/v1/homes/${cabin}/rooms`, { name: 'Hall' })).body.id;
    for (const name of ['Lamp', 'Oven', 'Fan']) await register(owner, { device_type: 'smart_light', name });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, expects: [403] },
    });
    await open('/devices');
    await select(page, 'Lamp');
    await select(page, 'Oven');
    await page.getByText('2 devices selected').waitFor();
    expect(await layoutProblems(page)).toEqual([]);
    await click(page, 'Move …');
    await page.getByLabel('Home', { exact: true }).selectOption('Cabin');
    await page.getByLabel('Room (optional)').selectOption('Hall');
    // Revoked in the meantime, so it is refused.
    const all = (await owner.get('/v1/devices')).body.devices as { id: string; name: string }[];
    const idOf = (name: string): string => `${all.find((device) => device.name === name)?.id}`;
    await owner.post(`/v1/device/${idOf('Oven')}/revoke`, {});
    await click(page, 'Move devices');
    await page.getByText('2 of 2 devices done, 1 failed').waitFor();
    await outcomeOf(page, 'Lamp', 'moved').waitFor();
    expect(await layoutProblems(page)).toEqual([]);
    await click(page, 'Select failed devices');
    await page.getByText('1 device selected').waitFor();
    expect(await page.getByRole('checkbox', { name: 'Select Oven' }).isChecked()).toBe(true);
    expect((await owner.get(`/v1/devices/${idOf('Lamp')}`)).body.device).toMatchObject({
      home_id: cabin,
      room_id: room,
    });
    expect((await owner.get(`/v1/devices/${idOf('Fan')}`)).body.device).toMatchObject({ home_id: owner.homeId });
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('are commanded once, also if the answer is lost, and their outcomes follow the commands', async () => {
    const owner = await at.owner();
    const home = await startSimulatedHome(at, owner);
    homes.push(home);
    const light = home.idOf('set_brightness');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, expects: [503] },
    });
    let requests = 0;
    await page.route('**/v1/devices/command', async (route) => {
      requests += 1;
      if (requests > 1) return route.continue();
      await route.fetch();
      await route.fulfill({ status: 503, body: '' });
    });
    await open('/devices');
    await page.getByText('5 devices', { exact: true }).waitFor();
    await click(page, 'Select all shown');
    await page.getByText('5 devices selected').waitFor();
    await click(page, 'Send command …');
    await page.getByLabel('Actions of').selectOption('smart_light');
    await page.getByLabel('Action', { exact: true }).selectOption('set_brightness');
    await page.getByRole('slider', { name: 'Level' }).press('End');
    expect(await accessibility(page)).toEqual([]);
    await click(page, 'Send command');
    const { name } = (await owner.get(`/v1/devices/${light}`)).body.device;
    await outcomeOf(page, name, 'succeeded').waitFor();
    await page.getByText('5 of 5 devices done, 4 failed').waitFor();
    expect((await owner.get(`/v1/devices/${light}`)).body.device.state).toMatchObject({ brightness: 100 });
    expect(requests).toBe(2);
    expect((await owner.get(`/v1/device/${light}/commands`)).body.commands).toHaveLength(1);
    await click(page, 'Close');
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('are revoked, also where another person must confirm it', async () => {
    const owner = await at.owner();
    for (const name of ['Lamp', 'Oven']) await register(owner, { device_type: 'smart_light', name });
    const revoked = async (): Promise<boolean[]> =>
      ((await owner.get('/v1/devices')).body.devices as { revoked: boolean }[]).map((device) => device.revoked);
    await owner.patch('/v1/tenant/policy', { confirm_by: 'another_principal' });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, expects: [409] },
    });
    await open('/devices');
    await page.getByText('2 devices', { exact: true }).waitFor();
    await click(page, 'Select all shown');
    await click(page, 'Revoke …');
    await page.getByLabel('Reason (optional)').fill('Stolen');
    await click(page, 'Revoke devices');
    await page.getByText('2 of 2 devices done').waitFor();
    await outcomeOf(page, 'Lamp', 'waits for a confirmation').waitFor();
    expect(await revoked()).toEqual([false, false]);
    const grace = await inviteMember(at, owner, 'admin');
    const { changes } = (await grace.get('/v1/change-requests?waiting=true')).body;
    expect(changes).toHaveLength(2);
    for (const { id } of changes) await grace.post(`/v1/change-requests/${id}/approve`, {});
    expect(await revoked()).toEqual([true, true]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('are offered to users without the changes of admins', async () => {
    const owner = await at.owner();
    await register(owner, { device_type: 'smart_light', name: 'Lamp' });
    const user = await inviteMember(at, owner, 'user');
    const { page, open, close } = await openConsolePage(browser, at, { token: user.token });
    await open('/devices');
    await select(page, 'Lamp');
    await page.getByRole('button', { name: 'Send command …' }).waitFor();
    expect(await page.getByRole('button', { name: /^(Move|Revoke)/ }).count()).toBe(0);
    await click(page, 'Clear selection');
    await page.getByRole('button', { name: 'Select all shown' }).waitFor();
    await close();
  });
});

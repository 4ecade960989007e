import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, layoutProblems, openConsolePage, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('homes, rooms and groups in the console', () => {
  let at: TestService;
  let browser: Browser;

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  const open = (page: Page, label: string) => page.getByRole('button', { name: label, exact: true }).click();
  const submit = open;
  const menu = (page: Page, label: string) =>
    page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: label, exact: true }).click();
  const closed = (page: Page) => page.getByRole('dialog').waitFor({ state: 'detached' });
  const title = (page: Page, name: string) => page.getByRole('heading', { level: 1, name, exact: true }).waitFor();

  it('a home is created, changed and deleted', async () => {
    const owner = await at.owner();
    const { page, open: visit, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await visit('/');
    await menu(page, 'Homes');
    await page.getByRole('table', { name: 'Homes, newest first' }).waitFor();
    await open(page, 'Add home …');
    await page.getByLabel('Name', { exact: true }).fill('Lakeside');
    expect(await page.getByLabel('Time zone (optional)').inputValue()).toBe('Europe/Berlin');
    expect(await accessibility(page)).toEqual([]);
    await submit(page, 'Add home');
    await title(page, 'Lakeside');
    await page.getByText('No rooms yet.').waitFor();
    expect(await accessibility(page)).toEqual([]);

    await open(page, 'Edit …');
    await page.getByLabel('Name', { exact: true }).fill('Cabin');
    await page.getByLabel('Time zone (optional)').fill('Europe/Oslo');
    await submit(page, 'Save');
    await title(page, 'Cabin');
    await page.getByText('Europe/Oslo').waitFor();
    await closed(page);
    const homes = (await owner.get('/v1/homes')).body.homes as { home_name: string; timezone: string | null }[];
    expect(homes[0]).toMatchObject({ home_name: 'Cabin', timezone: 'Europe/Oslo' });

    await open(page, 'Delete …');
    await submit(page, 'Delete home');
    await title(page, 'Homes');
    await page.getByRole('link', { name: 'Cabin' }).waitFor({ state: 'detached' });
    expect((await owner.get('/v1/homes')).body.count).toBe(1);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('a home with active devices is not deleted, with the reason', async () => {
    const owner = await at.owner();
    await register(owner, { device_type: 'smart_light', name: 'Lamp', home_id: owner.homeId });
    const { page, open: visit, close } = await openConsolePage(browser, at, { token: owner.token, expects: [409] });
    await visit(`/homes/${owner.homeId}`);
    await open(page, 'Delete …');
    await submit(page, 'Delete home');
    await page.getByText('The home still has active devices.').waitFor();
    await close();
  });

  it('rooms are created, renamed and deleted, on a large and on a small screen', async () => {
    const owner = await at.owner();
    const { page, open: visit, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await visit(`/devices?home=${owner.homeId}`);
    await page.getByRole('link', { name: 'Manage homes' }).click();
    const homes = page.getByRole('table', { name: 'Homes, newest first' });
    await homes.getByRole('link', { name: 'Home', exact: true }).click();
    await open(page, 'Add room …');
    await page.getByLabel('Name', { exact: true }).fill('Kitchen');
    await submit(page, 'Add room');
    await page.getByRole('row', { name: /^Kitchen/ }).waitFor();
    await open(page, 'Rename … Kitchen');
    await page.getByLabel('Name', { exact: true }).fill('Pantry');
    await submit(page, 'Rename');
    await page.getByRole('row', { name: /^Pantry/ }).waitFor();
    await closed(page);
    expect(await layoutProblems(page)).toEqual([]);
    const rooms = async () => (await owner.get(`/v1/homes/${owner.homeId}/rooms`)).body.rooms as { name: string }[];
    expect(await rooms()).toMatchObject([{ name: 'Pantry' }]);
    await open(page, 'Delete … Pantry');
    await submit(page, 'Delete room');
    await page.getByText('No rooms yet.').waitFor();
    expect(await rooms()).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('a group is created, filled, changed and deleted, on a large and on a small screen', async () => {
    const owner = await at.owner();
    const ids: string[] = [];
    for (const name of ['Desk lamp', 'Floor lamp', 'Oven']) {
      ids.push((await register(owner, { device_type: name === 'Oven' ? 'oven' : 'smart_light', name })).device_id);
    }
    const { page, open: visit, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    const members = async () => ((await owner.get('/v1/groups')).body.groups[0].device_ids as string[]).sort();
    await visit('/groups');
    await page.getByText('No groups yet.').waitFor();
    await open(page, 'Add group …');
    await page.getByLabel('Name', { exact: true }).fill('Evening');
    await page.getByLabel('Search by name or type').fill('desk');
    await page.getByRole('checkbox', { name: /Floor lamp/ }).waitFor({ state: 'detached' });
    await page.getByRole('checkbox', { name: /Desk lamp/ }).check();
    await page.getByLabel('Search by name or type').fill('');
    await page.getByText('Devices, 1 chosen').waitFor();
    expect(await layoutProblems(page)).toEqual([]);
    await submit(page, 'Add group');
    await title(page, 'Evening');
    await page.getByRole('row', { name: /^Desk lamp/ }).waitFor();
    expect(await members()).toEqual([ids[0]]);

    await open(page, 'Add devices …');
    await page.getByRole('checkbox', { name: /Oven/ }).check();
    expect(await page.getByRole('checkbox', { name: /Desk lamp/ }).count()).toBe(0);
    await submit(page, 'Add devices');
    await page.getByRole('row', { name: /^Oven/ }).waitFor();
    await closed(page);
    expect(await members()).toEqual([ids[0], ids[2]].sort());
    expect(await layoutProblems(page)).toEqual([]);
    await open(page, 'Remove … Desk lamp');
    await submit(page, 'Remove device');
    await page.getByRole('row', { name: /^Desk lamp/ }).waitFor({ state: 'detached' });
    expect(await members()).toEqual([ids[2]]);

    await open(page, 'Edit …');
    await page.getByLabel('Name', { exact: true }).fill('Kitchen');
    await page.getByLabel('Description (optional)').fill('At noon');
    await submit(page, 'Save');
    await title(page, 'Kitchen');
    await closed(page);
    expect((await owner.get('/v1/groups/evening')).body.group).toMatchObject({
      name: 'Kitchen',
      description: 'At noon',
    });
    await open(page, 'Delete …');
    await submit(page, 'Delete group');
    await page.getByText('No groups yet.').waitFor();
    expect((await owner.get('/v1/groups')).body.count).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('users see homes and groups and add devices to groups, and are offered nothing else', async () => {
    const owner = await at.owner();
    await register(owner, { device_type: 'smart_light', name: 'Lamp' });
    await owner.post('/v1/groups', { name: 'Evening' });
    const user = await inviteMember(at, owner, 'user', 'uma');
    const { page, open: visit, browserErrors, close } = await openConsolePage(browser, at, { token: user.token });
    await visit('/homes');
    await page.getByRole('table').waitFor();
    expect(await page.getByRole('button', { name: 'Add home …' }).count()).toBe(0);
    await visit(`/homes/${owner.homeId}`);
    await page.getByText('No rooms yet.').waitFor();
    expect(await page.locator('main button:not(.chip)').count()).toBe(0);
    await visit('/groups/evening');
    await open(page, 'Add devices …');
    await page.getByRole('checkbox', { name: /Lamp/ }).check();
    await submit(page, 'Add devices');
    await page.getByRole('row', { name: /^Lamp/ }).waitFor();
    await closed(page);
    expect(await page.getByRole('button', { name: /^(Remove|Edit|Delete)/ }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

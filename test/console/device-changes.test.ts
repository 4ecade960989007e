import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { eventually } from '../support/clock.ts';
import { accessibility, layoutProblems, openConsolePage, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('the page of a device', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let browser: Browser;
  let id = '';

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
  });
  beforeEach(async () => {
    owner = await at.owner();
    id = (await register(owner, { device_type: 'smart_light', name: 'Lamp' })).device_id;
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  const device = async () => (await owner.get(`/v1/devices/${id}`)).body.device;
  const open = (page: Page, label: string) => page.getByRole('button', { name: `${label} …` }).click();
  const submit = (page: Page, label: string) => page.getByRole('button', { name: label, exact: true }).click();
  const closed = (page: Page) => page.getByRole('dialog').waitFor({ state: 'detached' });

  it('renames and moves it, on a large and on a small screen', async () => {
    const home = (await owner.post('/v1/homes', { home_name: 'Cabin' })).body.id;
    const room = (await owner.post(`/v1/homes/${home}/rooms`, { name: 'Hall' })).body.id;
    const console = await openConsolePage(browser, at, { token: owner.token });
    const { page } = console;
    await console.open(`/devices/${id}`);
    await open(page, 'Rename');
    await page.getByLabel('Name', { exact: true }).fill('Reading lamp');
    expect(await accessibility(page)).toEqual([]);
    await submit(page, 'Rename');
    await page.getByRole('heading', { level: 1, name: 'Reading lamp' }).waitFor();
    await closed(page);

    await open(page, 'Move');
    await page.getByLabel('Home', { exact: true }).selectOption('Cabin');
    await page.getByLabel('Room (optional)').selectOption('Hall');
    expect(await layoutProblems(page)).toEqual([]);
    await submit(page, 'Move');
    await page.getByRole('main').getByRole('link', { name: 'Hall' }).waitFor();
    expect(await device()).toMatchObject({ name: 'Reading lamp', home_id: home, room_id: room });
    await closed(page);

    // The chosen room is that of the device, and can be left.
    await open(page, 'Move');
    const rooms = page.getByLabel('Room (optional)');
    await rooms.waitFor();
    expect(await rooms.inputValue()).toBe(room);
    await rooms.selectOption('no room');
    await submit(page, 'Move');
    await closed(page);
    expect(await device()).toMatchObject({ home_id: home, room_id: null });
    expect(console.browserErrors()).toEqual([]);
    await console.close();
  });

  it('rotates its secret, which is shown once', async () => {
    const console = await openConsolePage(browser, at, { token: owner.token });
    const { page } = console;
    await console.open(`/devices/${id}`);
    await page.getByRole('table', { name: 'Keys' }).waitFor();
    await open(page, 'Rotate secret');
    const answered = page.waitForResponse((response) => response.url().endsWith('/rotate-secret'));
    await submit(page, 'Rotate secret');
    const secret: string = (await (await answered).json()).new_secret;
    const shown = page.getByRole('dialog', { name: 'New secret of Lamp' });
    await shown.getByText(secret, { exact: true }).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await shown.getByRole('button', { name: 'Done' }).click();
    await closed(page);
    await page.getByRole('table', { name: 'Keys' }).getByText('grace').waitFor();
    expect(await page.content()).not.toContain(secret);
    expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')).not.toContain(secret);
    expect((await owner.get(`/v1/device/${id}/key-history`)).body.keys).toHaveLength(2);
    expect(console.browserErrors()).toEqual([]);
    await console.close();
  });

  it('states that the activity of a revoked device was removed', async () => {
    const lost = await register(owner, { device_type: 'smart_light', name: 'Lost lamp' });
    const speaker = await connectRawDevice(at, lost);
    await speaker.send('state', { state: { on: true } }, { sequence: 1 });
    speaker.mqtt.end(true);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${lost.device_id}`);
    await page.getByRole('table', { name: 'Recent messages' }).waitFor();
    expect((await owner.post(`/v1/device/${lost.device_id}/revoke`, {})).status).toBe(200);
    await eventually(async () => {
      const { body } = await owner.get(`/v1/devices/${lost.device_id}/activity`);
      return body.activity.messages.length === 0;
    });
    await page.reload();
    await page.getByText('The messages were removed when the device was revoked.').waitFor();
    await page.getByRole('row', { name: /^on .*before the revocation$/ }).waitFor();
    expect(await page.getByText(/since the service started|before the last restart/).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('revokes it, reinstates it with a new secret, and deletes it', async () => {
    const console = await openConsolePage(browser, at, { token: owner.token });
    const { page } = console;
    await console.open(`/devices/${id}`);
    expect(await page.getByRole('button', { name: 'Delete …' }).count()).toBe(0);
    const revoke = async (): Promise<void> => {
      await open(page, 'Revoke');
      await page.getByLabel('Reason (optional)').fill('Lost');
      await submit(page, 'Revoke device');
      await page.getByText('The device is revoked').waitFor();
      await closed(page);
    };
    await revoke();
    expect(await device()).toMatchObject({ revoked: true });
    await open(page, 'Reinstate');
    await page.getByLabel('Reason', { exact: true }).fill('Found');
    await submit(page, 'Reinstate device');
    const shown = page.getByRole('dialog', { name: 'New secret of Lamp' });
    expect(await shown.locator('code').textContent()).toMatch(/^[A-Za-z0-9_-]{43}$/);
    // The dialog stays, although its button is gone.
    await page.getByText('The device is revoked').waitFor({ state: 'detached' });
    await shown.getByRole('button', { name: 'Done' }).click();
    await closed(page);
    await revoke();
    await open(page, 'Delete');
    expect(await accessibility(page)).toEqual([]);
    await submit(page, 'Delete device');
    await page.getByRole('heading', { level: 1, name: 'Devices' }).waitFor();
    await page.getByText('No devices yet.').waitFor();
    expect((await owner.get(`/v1/devices/${id}`)).status).toBe(404);
    expect(console.browserErrors()).toEqual([]);
    await console.close();
  });

  it('shows a revocation that another person must confirm, and leaves it under Confirmations', async () => {
    const grace = await inviteMember(at, owner, 'admin', 'grace');
    await owner.patch('/v1/tenant/policy', { confirm_by: 'another_principal' });
    const console = await openConsolePage(browser, at, { token: owner.token, expects: [403, 409] });
    const { page } = console;
    await console.open(`/devices/${id}`);
    await open(page, 'Revoke');
    await submit(page, 'Revoke device');
    const dialog = page.getByRole('dialog', { name: 'Revoke Lamp?' });
    await dialog.getByText("The device 'Lamp' is revoked").waitFor();
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Confirm change' }).click();
    await dialog.getByText('A user that the safety policy allows can approve it there.').waitFor();
    await dialog.getByRole('button', { name: 'Decide later' }).click();
    await closed(page);
    expect(await device()).toMatchObject({ revoked: false });
    const [waiting] = (await grace.get('/v1/change-requests?waiting=true')).body.changes;
    expect((await grace.post(`/v1/change-requests/${waiting.id}/approve`, {})).status).toBe(200);
    await page.reload();
    await page.getByText('The device is revoked').waitFor();
    expect(console.browserErrors()).toEqual([]);
    await console.close();
  });

  it('offers none of it to a user who is not an admin', async () => {
    const user = await inviteMember(at, owner, 'user', 'uma');
    const console = await openConsolePage(browser, at, { token: user.token });
    await console.open(`/devices/${id}`);
    await console.page.getByRole('heading', { name: 'Details' }).waitFor();
    expect(await console.page.getByRole('heading', { name: 'Manage' }).count()).toBe(0);
    await console.close();
  });
});

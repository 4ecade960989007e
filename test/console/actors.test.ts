import { readFileSync } from 'node:fs';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { eventually } from '../support/clock.ts';
import {
  accessibility,
  layoutProblems,
  openConsolePage,
  overflowsHorizontally,
  PHONES,
  saveScreenshot,
  startConsoleService,
} from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';
import { type SimulatedHome, startSimulatedHome } from '../support/simulated-home.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

describe.runIf(hasChromium())('the actors in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let home: SimulatedHome;
  let browser: Browser;
  let [light, lock] = ['', ''];

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    home = await startSimulatedHome(at, owner);
    [light, lock] = [home.idOf('set_brightness'), home.idOf('unlock')];
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await home?.stop();
    await at?.stop();
  });

  const command = async (device: string, action: string, params = {}) =>
    (await owner.post(`/v1/device/${device}/command`, { action, params })).body;

  it('lists them all by name, with the states that they are in, also on a small screen', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/actors');
    const row = page.getByRole('row', { name: /Front door/i });
    await row.getByText('online').waitFor();
    await page.getByText(/^\d+ actors$/).waitFor();
    expect(await layoutProblems(page, [{ width: 1_280, colorScheme: 'light' }, ...PHONES])).toEqual([]);
    await page.getByRole('link', { name: 'Ceiling light' }).click();
    await page.getByRole('img', { name: 'link: now online' }).waitFor();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    await page.setViewportSize({ width: 320, height: 860 });
    expect(await overflowsHorizontally(page)).toBe(false);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows commands live with their device, parameters and user, and exports what is shown', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/actors?kind=command');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    const { command_id } = await command(light, 'set_brightness', { level: 41 });
    await page
      .getByRole('row')
      .filter({ hasText: command_id.slice(-8) })
      .getByText('succeeded')
      .waitFor();
    const table = page.getByRole('table', { name: 'Commands' });
    const row = table.getByRole('row', { name: /set_brightness.*Ceiling light.*41.*you/ }).first();
    await row.getByRole('link', { name: 'Ceiling light' }).waitFor();
    await command(lock, 'unlock');
    await table.getByText('awaiting confirmation').first().waitFor();
    expect(await layoutProblems(page, [{ width: 1_280, colorScheme: 'light' }, ...PHONES])).toEqual([]);
    await page.setViewportSize({ width: 1_280, height: 860 });
    await table.getByRole('button', { name: 'Parameters' }).click();
    expect(new URL(page.url()).search).toBe('?kind=command&sort=params');
    await page.getByText('Columns', { exact: true }).click();
    await page.getByRole('checkbox', { name: 'ID' }).uncheck();
    expect(await accessibility(page)).toEqual([]);
    const started = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const file = await started;
    expect(file.suggestedFilename()).toBe('commands.csv');
    const [header = '', ...records] = readFileSync(await file.path(), 'utf8')
      .trim()
      .split('\r\n');
    expect(header).toContain('"Command","State","Device","Parameters","User","Since"');
    expect(header).not.toContain('ID');
    expect(records.join()).toMatch(/"set_brightness","[^"]*succeeded[^"]*","Ceiling light","41[^"]*","you"/);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('lists the commands of all devices by status, device, user and time, and exports them', async () => {
    await command(light, 'set_brightness', { level: 43 });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token, width: 320 });
    await open('/commands');
    const table = page.getByRole('table', { name: 'Commands' });
    await table.getByRole('link', { name: 'Set brightness' }).first().waitFor();
    expect(await overflowsHorizontally(page)).toBe(false);
    await page.setViewportSize({ width: 1_280, height: 860 });
    await page.getByRole('combobox', { name: 'Device' }).selectOption({ label: 'Balcony sensor' });
    await page.getByText('No matching commands.').waitFor();
    await page.getByRole('link', { name: 'Show all' }).click();
    await page.getByRole('combobox', { name: 'Status' }).selectOption({ label: 'Succeeded' });
    await page.getByRole('combobox', { name: 'Device' }).selectOption({ label: 'Ceiling light' });
    await page.getByRole('combobox', { name: 'User' }).selectOption({ label: 'you' });
    await page.getByLabel('From (').fill('2020-01-01T00:00');
    const search = new URLSearchParams(new URL(page.url()).search);
    expect([...search.keys()]).toEqual(['status', 'device_id', 'by', 'from']);
    await table.getByRole('row', { name: /Set brightness.*succeeded.*Ceiling light.*43.*you/ }).waitFor();
    const started = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const file = await started;
    expect(file.suggestedFilename()).toBe('tenant-commands.csv');
    expect(readFileSync(await file.path(), 'utf8')).toContain('"set_brightness","Succeeded","Ceiling light"');
    await page.getByRole('combobox', { name: 'Status' }).selectOption({ label: 'Any status' });
    await page.getByRole('combobox', { name: 'Device' }).selectOption({ label: 'Any device' });
    await table.getByText('awaiting confirmation').first().waitFor();
    expect(await layoutProblems(page, [{ width: 1_280, colorScheme: 'dark' }, ...PHONES])).toEqual([]);
    const listed = page.waitForRequest((request) => new URL(request.url()).searchParams.has('to'));
    await page.getByLabel('To (').fill('2020-01-02T00:00');
    const { searchParams } = new URL((await listed).url());
    expect(['status', 'requested_by', 'to'].map((name) => searchParams.get(name))).toEqual([
      ...[null, owner.userId, '2020-01-01T23:00:00.000Z'],
    ]);
    await page.getByText('No matching commands.').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows a name with markup as plain text', async () => {
    const name = `"><img src=x onerror="document.title='owned'"><b>bold</b>`;
    const { device_id } = await register(owner, { name });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/actors/device/${device_id}`);
    await page.getByRole('heading', { level: 1, name: 'bold' }).getByText(name).waitFor();
    await page.getByRole('img', { name: 'link: now offline' }).waitFor();
    expect(await page.locator('main :is(img, b)').count()).toBe(0);
    expect(await page.title()).not.toBe('owned');
    await owner.delete(`/v1/devices/${device_id}`);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('scrolls a chart that is larger than the screen to the active state', async () => {
    const { command_id } = await command(light, 'set_brightness', { level: 35 });
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token, width: 400 });
    await open(`/actors/command/${command_id}`);
    await page.getByRole('img', { name: /lifecycle: now succeeded/ }).waitFor();
    const seen = `(() => {
      const [around, box] = ['.chart-scroll', '.chart .box.final.lit'].map((one) => document.querySelector(one).getBoundingClientRect());
      return around.left <= box.left && box.right <= around.right && box.width > 50;
    })()`;
    await eventually(async () => (await page.evaluate(seen)) === true);
    await close();
  });

  it('shows a waiting command with its remaining time', async () => {
    const { command_id } = await command(lock, 'unlock');
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token, height: 1_100 });
    await open(`/actors/command/${command_id}`);
    await page.getByRole('img', { name: /now awaiting confirmation/ }).waitFor();
    await page.getByText(/in 4:\d\d/).waitFor();
    await saveScreenshot(page, 'command');
    expect(await accessibility(page)).toEqual([]);
    await close();
  });

  it('replays the history step by step, and returns to the present', async () => {
    const { command_id } = await command(light, 'set_brightness', { level: 55 });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: owner.token,
      height: 1_100,
    });
    await open(`/actors/command/${command_id}`);
    await page.getByRole('img', { name: /lifecycle: now succeeded/ }).waitFor();
    const slider = page.getByRole('slider', { name: 'Step in the history' });
    await slider.focus();
    await page.keyboard.press('Home');
    await page.getByText('In the past').waitFor();
    await page.getByRole('img', { name: /lifecycle: now dispatched/ }).waitFor();
    expect(await page.locator('.label.took').first().textContent()).toContain('has session');
    await page.getByRole('button', { name: 'Next step' }).click();
    await page.getByRole('img', { name: /lifecycle: now acknowledged/ }).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Replay' }).click();
    await page.getByRole('img', { name: /lifecycle: now succeeded/ }).waitFor();
    await page.getByText('In the past').waitFor({ state: 'detached' });
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('draws the chart of a device with its events and guards, and highlights another state as soon as it disconnects', async () => {
    const sensor = home.members.at(-1)?.registration.device_id ?? '';
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: owner.token,
      height: 1_100,
    });
    await open(`/actors/device/${sensor}`);
    await page.getByRole('img', { name: 'link: now online' }).waitFor();
    await page.getByRole('img', { name: 'administration: now one key' }).waitFor();
    await page.getByText('Signs in, reports its state and receives commands.').first().waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    await home.unplug(sensor);
    await page.getByRole('img', { name: 'link: now offline' }).waitFor();
    await page.getByText('Caused by Device disconnected presence.lost').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('releases an actor from quarantine', async () => {
    await at.services.store.actors.quarantine({ kind: 'device', id: lock }, 'it failed three times');
    await at.services.actors.releaseQuarantine({ kind: 'device', id: lock });
    await at.services.store.actors.quarantine({ kind: 'device', id: lock }, 'it failed three times');
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/actors?held=true');
    await page.getByRole('link', { name: 'Front door' }).click();
    await page.getByText('it failed three times').waitFor();
    await page.getByRole('button', { name: 'Release' }).click();
    await page.getByText('it failed three times').waitFor({ state: 'detached' });
    await close();
  });

  it('filters by kind and state, and finds by name, in an address that can be sent', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token, width: 320 });
    await open('/actors?state=online');
    const states = page.getByRole('combobox', { name: 'State' });
    await page.getByRole('row', { name: /Front door/ }).waitFor();
    expect(await states.inputValue()).toBe('online');
    expect(await page.getByRole('row', { name: /Tenant of ada/ }).count()).toBe(0);
    await page.getByRole('radio', { name: 'Commands' }).check();
    await states.selectOption('lifecycle.succeeded');
    const command = page.getByRole('row', { name: /set_brightness/ }).first();
    await command.waitFor();
    expect(new URL(page.url()).search).toBe('?kind=command&state=lifecycle.succeeded');
    await page.reload();
    await command.waitFor();
    await page.getByLabel('Search by name or ID').fill('no such thing');
    await page.getByText('No matching actors.').waitFor();
    await page.getByRole('link', { name: 'Show all' }).click();
    await page.getByText(/^\d+ actors$/).waitFor();
    await states.locator('optgroup[label="Commands"] option').first().waitFor({ state: 'attached' });
    await states.selectOption({ value: 'tenant active' });
    expect(new URL(page.url()).search).toBe('?kind=tenant&state=active');
    await page.getByText('1 actor', { exact: true }).waitFor();
    expect(await page.getByRole('radio', { name: 'Tenant' }).isChecked()).toBe(true);
    expect(await overflowsHorizontally(page)).toBe(false);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('reports an actor that does not exist', async () => {
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token, expects: [404] });
    await open(`/actors/device/${owner.tenantId}`);
    await page.getByText('Actor not found.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await close();
  });

  it('has a heading where a device, command, plan, home or group does not exist', async () => {
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token, expects: [404] });
    for (const kind of ['devices', 'commands', 'plans', 'homes', 'groups']) {
      await open(`/${kind}/${owner.tenantId}`);
      await page.getByRole('heading', { level: 1, name: /not found/ }).waitFor();
    }
    expect(await accessibility(page)).toEqual([]);
    await close();
  });

  it('reports a lost connection, and reconnects', async () => {
    const line = await startTcpProxy(at.url);
    const through = { ...at, url: line.proxiedUrl(at.url).replace(/\/$/, '') };
    const { page, open, close } = await openConsolePage(browser, through, { token: owner.token });
    await open(`/actors/device/${light}`);
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    line.cut();
    await page.getByText(/Connection lost/).waitFor();
    await page.getByText('Reconnecting', { exact: true }).waitFor();
    await home.unplug(light);
    line.restore();
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    await page.getByRole('img', { name: 'link: now offline' }).waitFor();
    await page.getByText(/Connection lost/).waitFor({ state: 'detached' });
    await close();
    await line.close();
  });
});

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { eventually } from '../support/clock.ts';
import {
  type Layout,
  layoutProblems,
  openConsolePage,
  saveScreenshot,
  startConsoleService,
} from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';
import { type SimulatedHome, startSimulatedHome } from '../support/simulated-home.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const LAYOUTS: readonly Layout[] = [
  { width: 1_280, colorScheme: 'light' },
  { width: 1_280, colorScheme: 'dark' },
  { width: 400, colorScheme: 'dark' },
];

describe.runIf(hasChromium())('dashboards in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let home: SimulatedHome;
  let browser: Browser;

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    home = await startSimulatedHome(at, owner);
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await home?.stop();
    await at?.stop();
  });

  const stored = async (id: string) => (await owner.get(`/v1/dashboards/${id}`)).body.dashboard;
  const create = async (tiles: object[], name = 'Hallway'): Promise<string> => {
    const { status, body } = await owner.post('/v1/dashboards', { name, tiles });
    expect(status, JSON.stringify(body)).toBe(201);
    return body.dashboard.id;
  };
  const tile = (kind: string, id: string, [x, y, w, h]: readonly number[], more: object) => ({
    ...{ kind, id, x, y, w, h },
    ...more,
  });
  const note = (id: string, place: readonly number[]) =>
    tile('text', id, place, { title: id, text: '**Bins** on Tuesday' });
  const placeOf = async (id: string, tileId: string) => {
    const { tiles } = await stored(id);
    const { x, y, w, h } = tiles.find((one: { id: string }) => one.id === tileId);
    return [x, y, w, h];
  };
  const save = async (page: Page): Promise<void> => {
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('button', { name: 'Edit', exact: true }).waitFor();
  };

  it('are composed: a new one gets a tile, which is moved and resized with the keyboard and the pointer', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/dashboards');
    await page.getByRole('button', { name: 'New dashboard …' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Kitchen wall');
    await page.getByRole('button', { name: 'Create dashboard' }).click();
    await page.getByRole('heading', { level: 1, name: 'Kitchen wall' }).waitFor();
    await page.getByRole('button', { name: 'Add tiles', exact: true }).click();
    await page.getByRole('button', { name: 'Add a tile …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Shows').selectOption('value');
    await dialog.getByLabel('Device').selectOption(home.idOf('unlock'));
    await dialog.getByLabel('Property').selectOption('locked');
    await dialog.getByLabel('Title, optional').fill('Door');
    await dialog.getByRole('button', { name: 'Add tile' }).click();
    const handle = page.getByRole('button', { name: 'Move Door', exact: true });
    await handle.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Shift+ArrowRight');
    await page.getByText('Door: column 2, row 2, 4 wide, 2 high').waitFor();
    await save(page);
    const [{ id }] = (await owner.get('/v1/dashboards')).body.dashboards;
    expect((await stored(id)).tiles).toEqual([
      tile('value', 'tile-1', [1, 1, 4, 2], { device_id: home.idOf('unlock'), property: 'locked', title: 'Door' }),
    ]);

    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    const box = await handle.boundingBox();
    const board = await page.locator('.board').boundingBox();
    if (box === null || board === null) throw new Error('the tile is not shown');
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x + (board.width / 12) * 4, y, { steps: 5 });
    await page.mouse.up();
    await page.getByText('Door: column 6, row 2, 4 wide, 2 high').waitFor();
    await save(page);
    expect(await placeOf(id, 'tile-1')).toEqual([5, 1, 4, 2]);
    await page.getByText('Replace dashboard by you').first().waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show live values, and a button of a critical action requires the confirmation of its preview', async () => {
    const light = home.idOf('set_brightness');
    const lock = home.idOf('unlock');
    const id = await create([
      tile('sparkline', 'v', [0, 0, 3, 2], { device_id: light, property: 'brightness', title: 'Brightness' }),
      tile('command', 'b', [3, 0, 3, 2], { device_id: light, action: 'set_brightness', params: { level: 35 } }),
      tile('command', 'c', [6, 0, 3, 2], { device_id: lock, action: 'unlock' }),
      tile('confirmations', 'w', [9, 0, 3, 2], {}),
      tile('chart', 'h', [0, 2, 6, 4], { series: [{ device_id: light, property: 'brightness' }], range: 'hour' }),
      tile('value', 'gone', [6, 2, 3, 2], { device_id: owner.homeId, property: 'on', title: 'Old lamp' }),
      note('Note', [9, 2, 3, 2]),
      tile('sparkline', 'l', [6, 4, 3, 2], { device_id: lock, property: 'locked', title: 'Door' }),
    ]);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, expects: [404, 409] },
    });
    await open(`/dashboards/${id}`);
    // States are named, and not only coloured.
    await page
      .getByRole('list', { name: 'Last 24 hours' })
      .getByText(/^locked \d+\s%$/)
      .waitFor();
    const value = page.locator('[data-kind="sparkline"] .tile-value');
    await page.getByRole('button', { name: 'Set brightness: level 35' }).click();
    await value.getByText(/^35/).waitFor();
    await page.locator('[data-kind="command"]').getByText('succeeded').waitFor();
    await page.getByText('This device no longer exists.').waitFor();
    await page.getByRole('button', { name: 'Unlock' }).click();
    const dialog = page.getByRole('dialog', { name: /^Unlock: / });
    await dialog.getByRole('button', { name: 'Confirm: unlock' }).waitFor();
    expect((await owner.get(`/v1/devices/${lock}`)).body.device.state.locked).toBe(true);
    await dialog.getByRole('button', { name: 'Confirm: unlock' }).click();
    await eventually(async () => (await owner.get(`/v1/devices/${lock}`)).body.device.state.locked === false);
    await saveScreenshot(page, 'dashboard');
    expect(await layoutProblems(page, LAYOUTS)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('have a button with a form for open and secret parameters, which the dashboard does not keep', async () => {
    const { device_id: safe } = await register(owner, { device_type: 'safe', name: 'Safe' });
    const properties = {
      ...{ shelf: { type: 'integer', minimum: 1, maximum: 9 }, slow: { type: 'boolean' } },
      ...{ mode: { type: 'string', enum: ['day', 'night'] }, pin: { type: 'string', writeOnly: true } },
    };
    const paramSchema = { type: 'object', properties, required: ['shelf', 'pin'], additionalProperties: false };
    const capabilities = [{ action: 'open', safetyClass: 'CRITICAL', paramSchema }];
    expect((await owner.post(`/v1/devices/${safe}/manifest`, { capabilities })).status).toBe(201);
    const id = await create([]);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, expects: [409] },
    });
    await open(`/dashboards/${id}`);
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByRole('button', { name: 'Add a tile …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Shows').selectOption('command');
    await dialog.getByLabel('Device').selectOption(safe);
    await dialog.getByLabel('Action').selectOption('open');
    await dialog.getByLabel('Mode').selectOption('night');
    expect(await dialog.getByLabel(/^Shelf/).inputValue()).toBe('');
    expect(await dialog.getByLabel(/^Pin/).count()).toBe(0);
    await dialog.getByRole('button', { name: 'Add tile' }).click();
    await save(page);
    await page.getByRole('button', { name: 'Open: mode night …' }).click();
    await dialog.getByLabel(/^Pin/).fill('4711');
    await dialog.getByRole('button', { name: 'Open …' }).click();
    await page.getByRole('dialog', { name: 'Open: Safe?' }).waitFor();
    const [{ params }] = (await owner.get('/v1/confirmations')).body.confirmations;
    expect(params).toEqual({ mode: 'night', shelf: 1, pin: { write_only: true } });
    const [button] = (await stored(id)).tiles;
    expect(button).toMatchObject({ device_id: safe, action: 'open', params: { mode: 'night' } });
    expect(Object.keys(button.params)).toEqual(['mode']);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('keep the other tiles if one of them fails', async () => {
    const button = { device_id: home.idOf('set_brightness'), action: 'set_brightness' };
    const id = await create([tile('command', 'c', [0, 0, 3, 2], button), note('Note', [3, 0, 3, 2])]);
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token, fresh: true });
    // As after a new build, which has other files.
    await page.route(/param-form/, (route) => route.abort());
    await open(`/dashboards/${id}`);
    await page.getByRole('button', { name: 'Set brightness …' }).click();
    await page.locator('[data-kind="command"]').getByText('Loading failed.').waitFor();
    await page.getByText('Bins').waitFor();
    await close();
  });

  it('are not overwritten unnoticed: the second of two people sees the author of the first change', async () => {
    const id = await create([note('Note', [0, 0, 4, 2])]);
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token, expects: [409] });
    await open(`/dashboards/${id}`);
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByLabel('Name', { exact: true }).fill('Mine');
    const admin = await inviteMember(at, owner, 'admin');
    const theirs = await at.api(admin.token).put(`/v1/dashboards/${id}`, { version: 1, name: 'Theirs', tiles: [] });
    expect(theirs.status).toBe(200);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Changed by another person' });
    await dialog.getByText('saved version 2').waitFor();
    expect((await stored(id)).name).toBe('Theirs');
    await dialog.getByRole('button', { name: 'Overwrite' }).click();
    await page.getByRole('heading', { level: 1, name: 'Mine' }).waitFor();
    expect(await stored(id)).toMatchObject({ name: 'Mine', version: 3, tiles: [{ id: 'Note' }] });
    await close();
  });

  it('show a confirmation for what was requested, not for what another person changes its button to', async () => {
    const [lock, light] = [home.idOf('unlock'), home.idOf('set_brightness')];
    const button = (device_id: string, action: string) => tile('command', 'c', [0, 0, 3, 2], { device_id, action });
    // The light is loaded already when the button is changed to it.
    const shown = tile('value', 'v', [3, 0, 3, 2], { device_id: light, property: 'brightness' });
    const id = await create([button(lock, 'unlock'), shown]);
    const { page, open, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, expects: [409], fresh: true },
    });
    await page.clock.install();
    await open(`/dashboards/${id}`);
    await page.getByRole('button', { name: 'Unlock' }).click();
    const dialog = page.getByRole('dialog', { name: 'Unlock: Front door?' });
    await dialog.waitFor();
    const change = { version: 1, name: 'Hallway', tiles: [button(light, 'turn_on'), shown] };
    expect((await owner.put(`/v1/dashboards/${id}`, change)).status).toBe(200);
    await page.clock.fastForward(10_000);
    await page.locator('[data-kind="command"]').getByText('Turn on').waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    await close();
  });

  it('of a home exist before they are stored, and are changed as a copy; viewers see no devices', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('');
    await page.getByRole('region', { name: 'Dashboards' }).getByRole('link').first().waitFor();
    await open(`/dashboards/home/${owner.homeId}`);
    await page.getByRole('button', { name: 'Turn on' }).first().waitFor();
    await page.getByText('Waiting for confirmation').first().waitFor();
    await page.getByRole('button', { name: 'Edit a copy' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Copy');
    await save(page);
    await page.getByRole('heading', { level: 1, name: 'Copy' }).waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
    const viewer = await inviteMember(at, owner, 'viewer');
    const other = await openConsolePage(browser, at, { token: viewer.token });
    await other.open(`/dashboards/home/${owner.homeId}`);
    await other.page.getByText('Your role cannot see devices.').first().waitFor();
    expect(await other.page.getByRole('button', { name: 'Edit a copy' }).count()).toBe(0);
    expect(other.browserErrors()).toEqual([]);
    await other.close();
  });

  it('on a wall have no navigation, show without a connection how old values are, and update them after it', async () => {
    const light = home.idOf('set_brightness');
    const id = await create([
      tile('value', 'v', [0, 0, 6, 2], { device_id: light, property: 'brightness', title: 'Brightness' }),
    ]);
    const line = await startTcpProxy(at.url);
    const through = { ...at, url: line.proxiedUrl(at.url).replace(/\/$/, '') };
    const { page, open, close } = await openConsolePage(browser, through, { token: owner.token });
    await open(`/dashboards/${id}?wall`);
    const value = page.locator('.tile-value');
    await value.waitFor();
    expect(await page.getByRole('navigation').count()).toBe(0);
    line.cut();
    await page.getByText(/^No connection since \d/).waitFor();
    const before = await value.textContent();
    await page
      .locator('.tile-age')
      .getByText(/^As of \d/)
      .waitFor();
    expect(await value.textContent()).toBe(before);
    await owner.post(`/v1/device/${light}/command`, { action: 'set_brightness', params: { level: 77 } });
    line.restore();
    await value.getByText(/^77/).waitFor();
    // The value may be read before the stream is open again.
    for (const old of [/^No connection since/, /^As of/]) await page.getByText(old).waitFor({ state: 'hidden' });
    await page.keyboard.press('f');
    await page.getByRole('button', { name: 'Leave full screen' }).click();
    await page.getByRole('button', { name: 'Full screen', exact: true }).waitFor();
    await saveScreenshot(page, 'wall');
    await close();
    await line.close();
  });
});

import { readFileSync } from 'node:fs';
import type { Browser, WebSocketRoute } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { deviceCommit, newId } from '../support/actor-commits.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { eventually } from '../support/clock.ts';
import {
  accessibility,
  layoutProblems,
  openConsolePage,
  PHONES,
  saveScreenshot,
  startConsoleService,
} from '../support/console-page.ts';
import { register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import type { TestService } from '../support/service.ts';
import { type SimulatedHome, startSimulatedHome } from '../support/simulated-home.ts';

describe.runIf(hasChromium())('the devices in the console', () => {
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

  it('are listed by home and room, also on a small screen, and updated when they connect and disconnect', async () => {
    const cabin = (await owner.post('/v1/homes', { home_name: 'Cabin' })).body.id;
    const room = (await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: 'Hall' })).body.id;
    await owner.patch(`/v1/devices/${lock}`, { room_id: room });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/devices');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    const row = page.getByRole('row', { name: /Front door/ });
    await row.getByText('online').waitFor();
    await page.getByRole('link', { name: 'Home', exact: true }).last().click();
    await page.getByRole('link', { name: 'Hall' }).click();
    await page.getByText('5 devices, 1 shown').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('link', { name: 'Cabin' }).click();
    await page.getByText('No matching devices.').waitFor();
    expect(page.url()).toContain(`home=${cabin}`);
    await page.getByRole('link', { name: 'Show all' }).click();

    const extra = await register(owner, { device_type: 'smart_light', name: 'Porch light' });
    await page.reload();
    const porch = page.getByRole('row', { name: /Porch light/ });
    await porch.getByText('offline').waitFor();
    const speaker = await connectRawDevice(at, extra);
    await speaker.send('state', { state: { on: true } }, { sequence: 1 });
    await porch.getByText('online').waitFor();
    speaker.mqtt.end(true);
    await porch.getByText('offline').waitFor();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('are listed with state, battery and room, live, sorted, with chosen columns, and exported', async () => {
    const room = (await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: 'Attic' })).body.id;
    const registered = await register(owner, { device_type: 'smart_light', name: 'Attic lamp' });
    await owner.patch(`/v1/devices/${registered.device_id}`, { room_id: room });
    const speaker = await connectRawDevice(at, registered);
    await speaker.send('state', { state: { on: true, brightness: 40 } }, { sequence: 1 });
    await speaker.send('heartbeat', { uptime_s: 5, battery: 87 }, { sequence: 2 });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await eventually(async () => (await owner.get(`/v1/devices/${registered.device_id}`)).body.device.battery === 87);
    await open('/devices');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    const table = page.getByRole('table', { name: 'Devices' });
    const row = table.getByRole('row', { name: /Attic lamp/ });
    await row.getByText('on, brightness 40 %').waitFor();
    await row.getByText('87 %').waitFor();
    await row.getByText('Attic', { exact: true }).waitFor();
    await speaker.send('state', { state: { brightness: 60 } }, { sequence: 3 });
    await row.getByText(/^on, brightness 60/).waitFor();

    const battery = table.getByRole('columnheader', { name: 'Battery' });
    await battery.getByRole('button').click();
    expect(await battery.getAttribute('aria-sort')).toBe('ascending');
    expect(new URL(page.url()).search).toBe('?sort=battery');
    await battery.getByRole('button').click();
    expect(await battery.getAttribute('aria-sort')).toBe('descending');
    await page.getByText('Columns', { exact: true }).click();
    await page.getByRole('checkbox', { name: 'Type' }).uncheck();
    await page.getByRole('checkbox', { name: 'Firmware' }).check();
    expect(await accessibility(page)).toEqual([]);
    await page.reload();
    await table.getByRole('columnheader', { name: 'Firmware' }).waitFor();
    expect(await table.getByRole('columnheader', { name: 'Type' }).count()).toBe(0);
    await row.getByText('87 %').waitFor();
    await page.getByLabel('Search by name, type or ID').fill('attic');
    await page.getByText(/, 1 shown$/).waitFor();
    const started = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const text = readFileSync(await (await started).path(), 'utf8');
    expect(text).toMatch(/^\ufeff"Device","Presence","State","Battery","Home","Room","Last seen","Firmware"\r\n/);
    expect(text.split('\r\n')[1]).toMatch(/^"Attic lamp","online","on, brightness 60[^"]*",87,"Home","Attic",/);
    speaker.mqtt.end(true);
    await owner.delete(`/v1/devices/${registered.device_id}`);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show what they report about themselves, live, and what their firmware reports differently', async () => {
    const registered = await register(owner, { device_type: 'smart_light', name: 'Attic light' });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${registered.device_id}`);
    await page.getByText('not reported').first().waitFor();
    const speaker = await connectRawDevice(at, registered);
    await speaker.send('hello', { protocol: 'PROTO/3.1', firmware: '1.0.0', device_type: 'toaster' });
    await speaker.send('heartbeat', { rssi: -61, uptime_s: 93_784, free_heap: 143_360 });
    for (const text of ['-61 dBm', '1 d 2 h', '140 KiB']) await page.getByText(text, { exact: true }).waitFor();
    await page.getByText('The device reports the type toaster, but is registered as smart_light.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    speaker.mqtt.end(true);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('accept a command from a form, and show its progress until it is verified', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: owner.token,
      height: 1_000,
    });
    await open(`/devices/${light}`);
    await page.getByLabel('Action').selectOption({ label: 'Set brightness' });
    const level = page.getByLabel('Level', { exact: false });
    await level.focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('PageUp');
    await page.keyboard.press('ArrowRight');
    await page.getByRole('button', { name: 'Set brightness' }).click();
    await page.getByText('Verified, done').waitFor();
    await page
      .getByRole('row', { name: /^brightness/ })
      .getByText('11 %', { exact: true })
      .waitFor();
    await page.evaluate('scrollTo(0, 0)');
    await saveScreenshot(page, 'twin');
    expect(await accessibility(page)).toEqual([]);
    const { body } = await owner.get(`/v1/device/${light}/commands`);
    expect(body.commands[0]).toMatchObject({ action: 'set_brightness', params: { level: 11 }, status: 'succeeded' });
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('treat a double click as one click', async () => {
    const id = home.idOf('set_brightness');
    const countOf = async (): Promise<number> => (await owner.get(`/v1/device/${id}/commands`)).body.commands.length;
    const before = await countOf();
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${id}`);
    await page.getByLabel('Action').selectOption('turn_on');
    // Slow enough that the first click is answered before the second one.
    await page.getByRole('button', { name: 'Turn on' }).dblclick({ delay: 80 });
    await page.getByText('Verified, done').waitFor();
    expect(await countOf()).toBe(before + 1);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('do not send values that the schema refuses, and show which field is wrong', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${light}`);
    const before = (await owner.get(`/v1/device/${light}/commands`)).body.commands.length;
    await page.getByLabel('Action').selectOption({ label: 'Set color temperature' });
    const kelvin = page.getByLabel('Kelvin', { exact: false });
    await kelvin.fill('20');
    await page.getByRole('button', { name: 'Set color temperature' }).click();
    await page.getByText('must be at least 1000').waitFor();
    expect(await accessibility(page)).toEqual([]);
    expect((await owner.get(`/v1/device/${light}/commands`)).body.commands.length).toBe(before);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show the effect of a critical command before it is confirmed', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: owner.token,
      expects: [409],
    });
    await open(`/devices/${lock}`);
    await page.getByLabel('Action').selectOption({ label: 'Unlock (critical)' });
    await page.getByRole('button', { name: 'Unlock …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Unlock: Front door?' });
    expect(await dialog.getByRole('row', { name: /^locked/ }).textContent()).toContain('yes→no');
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Confirm: unlock' }).click();
    await page.getByText('Verified, done').waitFor();
    await page
      .getByRole('row', { name: /^locked/ })
      .getByText('no', { exact: true })
      .waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('preview a normal command, let the user cancel it, and are usable on a small screen', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${light}`);
    await page.getByLabel('Action').selectOption({ label: 'Set brightness' });
    await page.getByLabel('Level', { exact: false }).press('End');
    await page.getByRole('button', { name: 'Preview' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('row', { name: /^brightness/ }).textContent()).toContain('→100');
    await dialog.getByText('The command would have this effect:').waitFor();
    await dialog.getByText('Nothing is sent unless you confirm it.').waitFor();
    expect((await owner.get('/v1/confirmations')).body.confirmations).toEqual([]);
    await dialog.getByRole('button', { name: 'Cancel command' }).click();
    await dialog.waitFor({ state: 'detached' });
    const { body } = await owner.get(`/v1/device/${light}/commands`);
    expect(body.commands[0]).toMatchObject({ action: 'set_brightness', status: 'cancelled' });

    expect(await layoutProblems(page, PHONES)).toEqual([]);
    const top = async (name: string) => (await page.getByRole('heading', { name }).boundingBox())?.y ?? Number.NaN;
    expect(await top('Send a command')).toBeLessThan(await top('Details'));
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show the keys only to admins', async () => {
    const user = await inviteMember(at, owner, 'user', 'uma');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: user.token });
    await open(`/devices/${light}`);
    await page.getByRole('heading', { name: 'Manifest' }).waitFor();
    await page.getByRole('button', { name: 'Turn on' }).waitFor();
    expect(await page.getByRole('heading', { name: 'Keys' }).count()).toBe(0);
    expect(await page.getByRole('link', { name: /statechart/ }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show the reported state of a device, with the time of each property, its messages and refusals', async () => {
    const registered = await register(owner, { device_type: 'smart_light', name: 'Hostile light' });
    const speaker = await connectRawDevice(at, registered);
    await speaker.send('state', { state: { on: true, brightness: 40 } }, { sequence: 1 });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${registered.device_id}`);
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    const brightness = page.getByRole('row', { name: /^brightness/ });
    await brightness.getByText('40 %', { exact: true }).waitFor();
    const lastSeen = async () =>
      Date.parse(`${await page.getByText('last seen').locator('time').getAttribute('datetime')}`);
    const before = await lastSeen();
    at.clock.advance(61_000);
    await speaker.send('state', { state: { brightness: 70 } }, { sequence: 2 });
    await brightness.getByText('70 %', { exact: true }).waitFor();
    expect((await lastSeen()) - before).toBeGreaterThan(60_000);
    await speaker.send('state', { state: { brightness: 1 } }, { sequence: 2 });
    await page.reload();
    await page.getByText('sequence reused').waitFor();
    expect(await page.getByRole('row', { name: /^brightness/ }).textContent()).toContain('70');
    const timeOf = async (name: RegExp) =>
      Date.parse(`${await page.getByRole('row', { name }).locator('time').getAttribute('datetime')}`);
    expect((await timeOf(/^brightness/)) - (await timeOf(/^on/))).toBeGreaterThan(60_000);
    expect(await page.getByRole('table', { name: 'Keys' }).getByText('hmac-sha256').count()).toBe(1);
    const html = await page.content();
    expect(html).not.toContain(registered.device_secret);
    expect(browserErrors()).toEqual([]);
    speaker.mqtt.end(true);
    await close();
  });

  it('show an update that arrives before an older answer', async () => {
    const registered = await register(owner, { device_type: 'smart_light', name: 'Late light' });
    const path = `/v1/devices/${registered.device_id}`;
    const speaker = await connectRawDevice(at, registered);
    await speaker.send('state', { state: { brightness: 40 } }, { sequence: 1 });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    const brightness = page.getByRole('row', { name: /^brightness/ });
    let requests = 0;
    // The second request is sent when the stream is live.
    await page.route(
      ({ pathname }) => pathname === path,
      async (route) => {
        requests += 1;
        if (requests !== 2) return route.continue();
        await owner.patch(path, { name: 'Renamed light' });
        const response = await route.fetch();
        await speaker.send('state', { state: { brightness: 70 } }, { sequence: 2 });
        await brightness.getByText('70 %', { exact: true }).waitFor();
        await route.fulfill({ response });
      },
    );
    await open(`/devices/${registered.device_id}`);
    await page.getByRole('heading', { name: 'Renamed light' }).waitFor();
    expect(await brightness.getByText('70 %', { exact: true }).count()).toBe(1);
    expect(browserErrors()).toEqual([]);
    speaker.mqtt.end(true);
    await close();
  });

  it('show values with the units of their manifest', async () => {
    const registered = await register(owner, { device_type: 'aquarium_pump', name: 'Pump' });
    const paramSchema = {
      type: 'object',
      properties: { rate: { type: 'integer', unit: 'l/min' } },
      required: ['rate'],
    };
    const manifest = {
      capabilities: [
        { action: 'set_rate', paramSchema, expectedState: { flow: { $param: 'rate' } }, units: { water: '°C' } },
      ],
    };
    expect((await owner.post(`/v1/devices/${registered.device_id}/manifest`, manifest)).status).toBe(201);
    const speaker = await connectRawDevice(at, registered);
    await speaker.send('state', { state: { flow: 3, water: 24.5, power_w: 4.1 } }, { sequence: 1 });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${registered.device_id}`);
    await page.getByRole('row', { name: /^flow 3\sl\/min/ }).waitFor();
    await page.getByRole('row', { name: /^water 24\.5\s°C/ }).waitFor();
    await page.getByRole('row', { name: /^power 4\.1\sW/ }).waitFor();
    await page.getByLabel('Rate (l/min)', { exact: false }).fill('5');
    await page.getByRole('button', { name: 'Preview' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('row', { name: /^flow/ }).textContent()).toContain('3\u00a0l/min→5\u00a0l/min');
    await dialog.getByRole('button', { name: 'Cancel command' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('table', { name: 'Recent commands' }).getByRole('link', { name: 'Set rate' }).click();
    await page.getByText('5 l/min').first().waitFor();
    speaker.mqtt.end(true);
    await owner.delete(`/v1/devices/${registered.device_id}`);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('can be a thousand, all reachable after a reconnect, with only the visible rows in the document', async () => {
    const rich = await at.owner('rita');
    const NUMBER = 1_000;
    // The oldest, which is the last of the list. The others are stored copies of it, because each registration is a request.
    const { device_id } = await register(rich, { device_type: 'smart_light', name: 'Lamp 0' });
    const { actors } = at.services.store;
    const [registered] = await actors.load('device', [device_id]);
    if (registered === undefined) throw new Error('the device is not stored');
    const { tenantId, machineVersion, value, context } = registered;
    const columns = { home_id: rich.homeId, created_at: at.clock.now() };
    const copies = Array.from({ length: NUMBER - 1 }, (_, index) => {
      const id = newId();
      const fixed = { ...context, id, name: `Lamp ${index + 1}` };
      return deviceCommit({ id, tenantId, machineVersion, value, fixed, columns });
    });
    for (let from = 0; from < copies.length; from += 500) await actors.commit(copies.slice(from, from + 500));
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: rich.token, fresh: true });
    // The loaded pages are requested again when the stream is open, which cancels the request of the next page.
    const sockets: WebSocketRoute[] = [];
    await page.routeWebSocket(/\/ws\/state/, (socket) => {
      sockets.push(socket);
      socket.connectToServer();
    });
    let isHeld = false;
    const reloaded = Promise.withResolvers<void>();
    await page.route(/\/v1\/devices\?limit=200&cursor=/, async (route) => {
      isHeld = true;
      await reloaded.promise;
      await route.continue();
    });
    await open('/devices');
    await page.getByText('1,000 devices').waitFor();
    const rows = page.getByRole('row', { name: /Lamp \d+ / });
    await rows.first().waitFor();
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    const toTheEnd = () => page.evaluate('document.querySelector(".long tbody").scrollTo(0, 1e9)');
    await eventually(async () => {
      await toTheEnd();
      return isHeld;
    });
    const reload = page.waitForResponse(/\/v1\/devices\?limit=200$/);
    await sockets.at(-1)?.close({ code: 1001 });
    await reload;
    reloaded.resolve();
    await eventually(async () => {
      await toTheEnd();
      return (await page.getByText('Lamp 0', { exact: true }).count()) === 1;
    });
    expect(await page.locator('tr').count()).toBeLessThan(200);
    expect(await page.getByRole('table', { name: 'Devices' }).getAttribute('aria-rowcount')).toBe('1001');
    await page.getByLabel('Search by name, type or ID').fill('Lamp 77');
    await page.getByText('1,000 devices, 11 shown').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

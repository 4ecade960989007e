import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import {
  accessibility,
  openConsolePage,
  overflowsHorizontally,
  saveScreenshot,
  startConsoleService,
} from '../support/console-page.ts';
import { connect } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

const { mosquitto_pub: mosquitto, jq, openssl, 'paho-mqtt 1': python } = inject('programs');
const hasShellTools = mosquitto !== null && jq !== null && openssl !== null;

describe.runIf(hasChromium())('a device that is added in the console', () => {
  let at: TestService;
  let browser: Browser;
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-add-device-'));
  const running: ChildProcess[] = [];

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
  });
  afterAll(async () => {
    for (const { pid } of running) if (pid !== undefined) killGroup(pid);
    await browser?.close();
    await at?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const addButton = (page: Page) => page.getByRole('button', { name: 'Add device …' });
  const submit = (page: Page) => page.getByRole('button', { name: 'Add device', exact: true });
  const programIn = async (page: Page, language: string): Promise<string> => {
    await page.getByRole('radio', { name: language, exact: true }).check();
    const field = page.getByLabel(`Program in ${language}`);
    await field.waitFor();
    await page.waitForFunction("document.querySelector('.program').value !== ''");
    return field.inputValue();
  };
  const paste = (program: string): void => {
    // The Python that has paho-mqtt comes first.
    const path = [...(python === null ? [] : [dirname(python)]), process.env.PATH].join(delimiter);
    const env = { ...process.env, PATH: path };
    running.push(spawn('sh', ['-c', program], { cwd: folder, detached: true, stdio: 'ignore', env }));
  };

  it('gets a new home, signs in with the secret that is shown once, and is then online', async () => {
    const owner = await at.owner('ada');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/');
    await addButton(page).click();
    await page.getByLabel('Name', { exact: true }).fill('Desk lamp');
    await page.getByLabel('Device type').fill('smart_light');
    await page.getByLabel('Home', { exact: true }).selectOption('New home …');
    await page.getByLabel('Name of the new home').fill('Cottage');
    expect(await accessibility(page)).toEqual([]);
    await submit(page).click();
    await page.getByText('Waiting for its first message').waitFor();
    const secret = `${await page.locator('.secret').textContent()}`;
    const program = await programIn(page, 'JavaScript');
    const memberIn = (name: string): string => `${new RegExp(`${name}: "(.*)"`).exec(program)?.[1]}`;
    expect(memberIn('secret')).toBe(secret);
    expect(await page.content()).not.toContain('an example for a light');
    expect(await accessibility(page)).toEqual([]);
    await saveScreenshot(page, 'added-device');

    const id = memberIn('deviceId');
    const device = await connect({
      ...{ mqtt_url: memberIn('mqttUrl'), tenant_id: memberIn('tenantId'), device_id: id, device_secret: secret },
      ...{ signing_alg: 'hmac-sha256', key_version: 1, initial_sequence: 1, cloud_public_keys: [] },
    });
    await page.getByText('The device is connected.').waitFor();
    await device.close();
    const { body } = await owner.get(`/v1/devices/${id}`);
    const homes = (await owner.get('/v1/homes')).body.homes as { id: string; home_name: string }[];
    expect(body.device.name).toBe('Desk lamp');
    expect(homes.find((home) => home.id === body.device.home_id)?.home_name).toBe('Cottage');

    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await page.content()).not.toContain(secret);
    expect(page.url()).not.toContain(secret);
    expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')).not.toContain(secret);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('is put into a room, and the home is not created again if the registration is refused', async () => {
    const owner = await at.owner('grace');
    const room = (await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: 'Hall' })).body.id;
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, width: 400, colorScheme: 'dark', expects: [400] },
    });
    await open('/devices');
    await addButton(page).click();
    await page.getByLabel('Name', { exact: true }).fill('Lamp');
    await page.getByLabel('Device type').fill('   ');
    await page.getByLabel('Home', { exact: true }).selectOption('New home …');
    await page.getByLabel('Name of the new home').fill('Barn');
    await submit(page).click();
    await page.getByRole('alert').waitFor();
    await page.locator('option:checked', { hasText: 'Barn' }).waitFor({ state: 'attached' });
    await page.getByLabel('Device type').fill('smart_light');
    await page.getByLabel('Home', { exact: true }).selectOption('Home');
    await page.getByLabel('Room (optional)').selectOption('Hall');
    await submit(page).click();
    await page.getByText('Waiting for its first message').waitFor();
    await programIn(page, 'Python');
    expect(await overflowsHorizontally(page)).toBe(false);
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Done' }).click();
    const { devices } = (await owner.get('/v1/devices')).body;
    expect(devices).toMatchObject([{ name: 'Lamp', home_id: owner.homeId, room_id: room }]);
    const homes = (await owner.get('/v1/homes')).body.homes as { home_name: string }[];
    expect(homes.map(({ home_name }) => home_name).sort()).toEqual(['Barn', 'Home']);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('is added without a room while the rooms are still loading', async () => {
    const owner = await at.owner();
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    let answer = (): void => {};
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route(/\/rooms\?/, async (route) => {
      await held;
      await route.continue();
    });
    await open('/devices');
    await addButton(page).click();
    await page.getByLabel('Name', { exact: true }).fill('Lamp');
    await page.getByLabel('Device type').fill('smart_light');
    await page.locator('option', { hasText: 'Loading rooms …' }).waitFor({ state: 'attached' });
    await submit(page).click();
    await page.getByText('Waiting for its first message').waitFor();
    answer();
    expect((await owner.get('/v1/devices')).body.devices).toMatchObject([{ home_id: owner.homeId, room_id: null }]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it.each([
    ['Shell', hasShellTools],
    ['Python', python !== null],
  ] as const)('connects when the program in %s is pasted into a terminal', async (language, isInstalled) => {
    const owner = await at.owner();
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/devices');
    await addButton(page).click();
    await page.getByLabel('Name', { exact: true }).fill('Lamp');
    await page.getByLabel('Device type').fill('smart_light');
    await submit(page).click();
    await page.getByText('Waiting for its first message').waitFor();
    const program = await programIn(page, language);
    expect(program).toContain(await page.locator('.secret').textContent());
    if (isInstalled) {
      paste(program);
      await page.getByText('The device is connected.').waitFor();
      // What it reports has a chart, which begins with its last hour.
      await page.getByRole('link', { name: 'Open device' }).click();
      const chart = page.getByRole('link', { name: 'Chart of brightness' });
      // Until its values have been received, the link has no range.
      await chart.and(page.locator('[href$="range=1h"]')).click();
      await page.locator('.plot canvas').waitFor();
      expect(new URL(page.url()).search).toBe('?property=brightness&range=1h');
    }
    await close();
  });

  it('gets a program of a light, which the dialog states, also if it is something else', async () => {
    const owner = await at.owner();
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, width: 400 },
    });
    await open('/devices');
    await addButton(page).click();
    await page.getByLabel('Name', { exact: true }).fill('Greenhouse');
    await page.getByLabel('Device type').fill('climate_sensor');
    await submit(page).click();
    await page.getByText('The program is an example for a light.').waitFor();
    expect(await overflowsHorizontally(page)).toBe(false);
    expect(await accessibility(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('is not offered to a user who is not an admin', async () => {
    const owner = await at.owner('lin');
    const user = await inviteMember(at, owner, 'user', 'uma');
    const { page, open, close } = await openConsolePage(browser, at, { token: user.token });
    await open('/devices');
    await page.getByText('No devices yet.').waitFor();
    expect(await addButton(page).count()).toBe(0);
    await close();
  });
});

function killGroup(pid: number): void {
  try {
    process.kill(-pid);
  } catch {
    // It has ended.
  }
}

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SimulatedDevice } from '../../src/device/homes/simulated-device.ts';
import { inviteMember } from '../support/access-fixture.ts';
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
import type { TestService } from '../support/service.ts';
import { type SimulatedHome, startSimulatedHome } from '../support/simulated-home.ts';

/** Two lights: one carries out commands, but delays 100 % until the test releases it; the other one never turns on. */
function slowLight(): { device: SimulatedDevice; goOn(): void } {
  let goOn = (): void => {};
  const waits = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const state = { on: true, brightness: 100 };
  const device: SimulatedDevice = {
    ...{ name: 'Reading lamp', deviceType: 'smart_light', firmware: '1.0.0', state, tick: () => null },
    commands: {
      async set_brightness({ level }) {
        if (level === 100) await waits;
        state.brightness = Number(level);
        return { state: { brightness: state.brightness } };
      },
    },
  };
  return { device, goOn };
}

const broken: SimulatedDevice = {
  ...{ name: 'Old lamp', deviceType: 'smart_light', firmware: '1.0.0', state: { on: false }, tick: () => null },
  commands: {
    turn_on() {
      throw new Error('the bulb is gone');
    },
  },
};

describe.runIf(hasChromium())('the plans in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let home: SimulatedHome;
  let browser: Browser;
  let [light, lock, climate, lamp, old] = ['', '', '', '', ''];
  const slow = slowLight();

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    home = await startSimulatedHome(at, owner);
    [light, lock, climate] = [home.idOf('set_color'), home.idOf('unlock'), home.idOf('set_temperature')];
    [lamp, old] = [await home.add(slow.device), await home.add(broken)];
    browser = await connectBrowser();
  });
  afterAll(async () => {
    slow.goOn();
    await browser?.close();
    await home?.stop();
    await at?.stop();
  });

  const make = async (plan: object): Promise<string> => {
    const { status, body } = await owner.post('/v1/plans', plan);
    expect(status).toBe(202);
    return body.plan.id;
  };
  const statusOf = async (id: string): Promise<string> => (await owner.get(`/v1/plans/${id}`)).body.plan.status;

  it('explain the page if there are none', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/plans');
    await page.getByText('No plans yet.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('are drawn with their dependencies, and updated live', async () => {
    const id = await make({
      name: 'Guests arrive',
      steps: [
        { id: 'warm', device_id: climate, action: 'set_temperature', params: { celsius: 21 } },
        { id: 'light', device_id: light, action: 'set_brightness', params: { level: 80 } },
        { id: 'unlock', device_id: lock, action: 'unlock', depends_on: ['light'] },
        { id: 'welcome', device_id: light, action: 'identify', depends_on: ['unlock', 'warm'] },
      ],
    });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: owner.token,
      height: 1_000,
    });
    await open('/plans');
    await page.getByRole('link', { name: 'Guests arrive' }).click();
    await page.getByText('A critical step is waiting for confirmation').first().waitFor();
    await page.locator('[data-step=unlock].awaiting_confirmation').waitFor();
    await page.locator('[data-step=warm].succeeded').waitFor();
    await page.locator('[data-step=welcome].pending').waitFor();
    expect(await accessibility(page)).toEqual([]);
    const { confirmations } = (await owner.get('/v1/confirmations')).body;
    await owner.post(`/v1/confirmations/${confirmations[0].command_id}/approve`);
    await page.getByRole('status').getByText('All steps succeeded.').waitFor();
    await page.locator('[data-step=welcome].succeeded').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
    expect(await statusOf(id)).toBe('succeeded');
  });

  it('show the final state of an agent by the names of the devices', async () => {
    const id = await make({ name: 'Dusk', steps: [{ id: 'light', device_id: light, action: 'turn_on' }] });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await page.route(`**/v1/plans/${id}`, async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      const final_state = { devices: { [light]: { on: true, brightness: 80 } }, rooms: 2 };
      body.plan.cognition = { phase: 'done', goal: 'Dusk', summary: 'Done', final_state };
      await route.fulfill({ response, json: body });
    });
    await open(`/plans/${id}`);
    const planning = page.getByRole('region', { name: 'Planning' });
    await planning.getByRole('link', { name: 'Ceiling light' }).waitFor();
    await planning.getByText('on yes, brightness 80', { exact: true }).waitFor();
    await planning.getByText('rooms').waitFor();
    expect(await planning.getByText(light).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show their rollback as it runs, in reverse order, with its reason', async () => {
    const id = await make({
      name: 'Evening',
      steps: [
        {
          ...{ id: 'dim', device_id: lamp, action: 'set_brightness', params: { level: 20 } },
          compensation: { action: 'set_brightness', params: { level: 100 } },
        },
        {
          ...{
            id: 'warm',
            device_id: climate,
            action: 'set_temperature',
            params: { celsius: 23 },
            depends_on: ['dim'],
          },
          compensation: { action: 'set_temperature', params: { celsius: 18 } },
        },
        { id: 'lamp', device_id: old, action: 'turn_on', depends_on: ['warm'] },
        { id: 'lock', device_id: lock, action: 'lock', depends_on: ['lamp'] },
      ],
    });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: owner.token,
      height: 1_000,
    });
    await open(`/plans/${id}`);
    await page.locator('[data-step=warm].compensated').waitFor();
    await page.locator('[data-step=dim].compensating').waitFor();
    await page.locator('[data-step=lamp].failed').waitFor();
    await page.locator('[data-step=lock].skipped').waitFor();
    await page
      .getByRole('status')
      .getByText(/in reverse order; 1 done/)
      .waitFor();
    await page.getByText('The device reported a failure: the bulb is gone').waitFor();
    await saveScreenshot(page, 'rollback');
    expect(await accessibility(page)).toEqual([]);
    slow.goOn();
    await page.getByRole('status').getByText('Rolled back: 2 completed steps.').waitFor();
    await page.locator('[data-step=dim].compensated').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show which steps will be undone before they are cancelled', async () => {
    const id = await make({
      name: 'Open house',
      steps: [
        {
          ...{ id: 'light', device_id: light, action: 'set_brightness', params: { level: 60 } },
          compensation: { action: 'set_brightness', params: { level: 5 } },
        },
        { id: 'unlock', device_id: lock, action: 'unlock', depends_on: ['light'] },
      ],
    });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/plans/${id}`);
    await page.locator('[data-step=unlock].awaiting_confirmation').waitFor();
    await page.getByRole('button', { name: 'Cancel plan …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel: Open house?' });
    await dialog.getByText('Set brightness · Ceiling light').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByLabel(/^Reason/).fill('The guests have left.');
    await dialog.getByRole('button', { name: 'Cancel the plan' }).click();
    await page.getByText('The plan was cancelled and completed steps were rolled back.').first().waitFor();
    await eventually(async () => (await statusOf(id)) === 'cancelled');
    expect(await page.getByRole('button', { name: 'Cancel plan …' }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('are readable for a viewer, also on a small screen, in light and dark colours', async () => {
    const viewer = await inviteMember(at, owner, 'viewer', 'vera');
    const id = await make({ steps: [{ id: 'unlock', device_id: lock, action: 'unlock' }] });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: viewer.token,
      width: 400,
    });
    for (const path of ['/plans', `/plans/${id}`]) {
      await open(path);
      await page.getByRole('table').first().waitFor();
      expect(await layoutProblems(page, PHONES)).toEqual([]);
    }
    await page.locator('[data-step=unlock].awaiting_confirmation').waitFor();
    expect(await page.getByRole('button', { name: 'Cancel plan …' }).count()).toBe(0);
    expect(await page.getByRole('link', { name: 'Unlock' }).count()).toBe(0);
    await owner.post(`/v1/plans/${id}/cancel`);
    await page.getByText('The plan was cancelled.').first().waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

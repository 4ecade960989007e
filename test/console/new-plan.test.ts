import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { layoutProblems, openConsolePage, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';
import { type SimulatedHome, startSimulatedHome } from '../support/simulated-home.ts';

describe.runIf(hasChromium())('a plan that is created in the console', () => {
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

  const step = (page: Page, number: number) => page.getByRole('region', { name: `Step ${number}`, exact: true });
  const click = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
  const countOf = async (): Promise<number> => (await owner.get('/v1/plans')).body.count;

  it('is previewed and then run, on a large and on a small screen', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    const before = await countOf();
    await open('/plans');
    await page.getByRole('link', { name: 'New plan …' }).first().click();
    await page.getByLabel('Name (optional)').fill('Good night');
    const first = step(page, 1);
    await first.getByLabel('Device', { exact: true }).selectOption(light);
    await first.getByLabel('Action', { exact: true }).selectOption('set_brightness');
    await first.getByRole('slider', { name: 'Level' }).press('End');
    await first.getByLabel('To roll it back, if a later step fails').selectOption('turn_off');
    await click(page, 'Add step');
    const second = step(page, 2);
    await second.getByLabel('Device', { exact: true }).selectOption(lock);
    await second.getByLabel('Action', { exact: true }).selectOption('lock');
    expect(await second.getByRole('checkbox', { name: 'Step 1' }).isChecked()).toBe(true);
    // A step that is removed is not sent, and no step waits for it.
    await click(page, 'Add step');
    await click(page, 'Remove step 3');
    expect(await layoutProblems(page)).toEqual([]);

    await click(page, 'Preview');
    const preview = page.getByRole('region', { name: 'Preview', exact: true });
    await preview.getByText('Set brightness').waitFor();
    expect(await preview.getByText('allowed', { exact: true }).count()).toBe(2);
    expect(await countOf()).toBe(before);
    expect(await layoutProblems(page)).toEqual([]);

    await click(page, 'Run plan');
    await page.getByRole('heading', { level: 1, name: 'Good night' }).waitFor();
    await page.getByRole('status').getByText('All steps succeeded.').waitFor();
    const [plan] = (await owner.get('/v1/plans')).body.plans;
    expect(plan).toMatchObject({
      ...{ name: 'Good night', status: 'succeeded', on_failure: 'rollback' },
      steps: [
        { device_id: light, action: 'set_brightness', params: { level: 100 }, depends_on: [] },
        { device_id: lock, action: 'lock', depends_on: [plan.steps[0].id] },
      ],
    });
    expect(plan.steps[0].compensation).toMatchObject({ action: 'turn_off' });
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows which step needs a confirmation, and hides the preview when the plan is changed', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/plans/new');
    await step(page, 1).getByLabel('Device', { exact: true }).selectOption(lock);
    await step(page, 1).getByLabel('Action', { exact: true }).selectOption('unlock');
    await click(page, 'Preview');
    const preview = page.getByRole('region', { name: 'Preview', exact: true });
    await preview.getByText('needs confirmation').waitFor();
    await step(page, 1).getByLabel('Action', { exact: true }).selectOption('lock');
    await preview.waitFor({ state: 'detached' });
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('is not sent with parameters that the schema refuses', async () => {
    const before = await countOf();
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/plans/new');
    await step(page, 1).getByLabel('Device', { exact: true }).selectOption(light);
    await step(page, 1).getByLabel('Action', { exact: true }).selectOption('set_color_temperature');
    const kelvin = step(page, 1).getByLabel('Kelvin', { exact: false });
    await kelvin.fill('20');
    await click(page, 'Run plan');
    expect(await page.locator('input:invalid').count()).toBe(1);
    await kelvin.fill('3000');
    await click(page, 'Run plan');
    await page.getByRole('heading', { level: 1, name: 'Plan with 1 step' }).waitFor();
    expect(await countOf()).toBe(before + 1);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('is offered on an empty page, and needs a device', async () => {
    const grace = await at.owner();
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: grace.token });
    await open('/plans');
    await page.getByRole('link', { name: 'New plan …' }).click();
    await page.getByText('A plan needs a device.').waitFor();
    const { device_id } = await register(grace, { device_type: 'smart_light', name: 'Lamp' });
    await page.reload();
    await step(page, 1).getByLabel('Device', { exact: true }).selectOption(device_id);
    const viewer = await inviteMember(at, grace, 'viewer', 'vera');
    const other = await openConsolePage(browser, at, { token: viewer.token });
    await other.open('/plans');
    await other.page.getByText('No plans yet.').waitFor();
    expect(await other.page.getByRole('link', { name: 'New plan …' }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await other.close();
    await close();
  });
});

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember, type Member } from '../support/access-fixture.ts';
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
import type { TestService } from '../support/service.ts';
import { type SimulatedHome, startSimulatedHome } from '../support/simulated-home.ts';

describe.runIf(hasChromium())('the confirmations in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let grace: Member;
  let home: SimulatedHome;
  let browser: Browser;
  let lock = '';

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    grace = await inviteMember(at, owner, 'user', 'grace');
    home = await startSimulatedHome(at, owner);
    lock = home.idOf('unlock');
    await owner.patch('/v1/tenant/policy', { confirm_by: 'another_principal' });
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await home?.stop();
    await at?.stop();
  });

  const request = async (action: string, params = {}): Promise<string> =>
    (await owner.post(`/v1/device/${lock}/command`, { action, params })).body.command_id;
  const statusOf = async (id: string): Promise<string> => (await owner.get(`/v1/commands/${id}`)).body.command.status;

  it('explain the page if nothing is pending', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/confirmations');
    await page.getByText('No pending confirmations.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('are counted in the navigation of every page, live, with one request for each connection', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: grace.token });
    const listings: string[] = [];
    page.on('request', (request) => {
      if (request.url().includes('/v1/confirmations')) listings.push(request.url());
    });
    const link = (name: string) => page.getByRole('link', { name, exact: true });
    const before = await request('unlock');
    await open('/plans');
    await link('Confirmations 1 waiting').waitFor();
    const after = await request('unlock');
    await link('Confirmations 2 waiting').waitFor();
    await page.setViewportSize({ width: 400, height: 860 });
    await page.getByRole('button', { name: 'Menu 2 waiting' }).waitFor();
    expect(await overflowsHorizontally(page)).toBe(false);
    await page.setViewportSize({ width: 1_280, height: 860 });
    await owner.post(`/v1/confirmations/${before}/refuse`);
    await link('Confirmations 1 waiting').waitFor();
    await owner.post(`/v1/commands/${after}/cancel`, {});
    await link('Confirmations').waitFor();
    expect(listings).toHaveLength(1);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show the API key that requested a command', async () => {
    const scopes = ['execute:commands'];
    const { key, prefix } = (await owner.post('/v1/auth/api-keys', { name: 'agent', scopes })).body;
    const { command_id } = (await at.api(key).post(`/v1/device/${lock}/command`, { action: 'unlock' })).body;
    const { page, open, close } = await openConsolePage(browser, at, { token: grace.token });
    await open('/confirmations');
    const entry = page.getByRole('article', { name: /^Unlock · Front door/ });
    await entry.getByText(`with the key “agent” (twk_${prefix}…)`).waitFor();
    await owner.post(`/v1/confirmations/${command_id}/refuse`);
    await close();
  });

  it('let a second person approve the command of the first, and follow it until it is verified', async () => {
    const first = await openConsolePage(browser, at, { token: owner.token, expects: [403] });
    const second = await openConsolePage(browser, at, { token: grace.token, height: 1_000 });
    await Promise.all([first.open('/confirmations'), second.open('/confirmations')]);
    await second.page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    const id = await request('unlock');

    const mine = first.page.getByRole('article', { name: /^Unlock/ });
    await mine.getByRole('button', { name: 'Approve …' }).click();
    const alone = first.page.getByRole('dialog', { name: 'Unlock: Front door?' });
    await alone.getByRole('button', { name: 'Approve: unlock' }).click();
    await alone.getByText('The policy requires confirmation by another user than the requester.').waitFor();
    expect(await accessibility(first.page)).toEqual([]);
    await alone.getByRole('button', { name: 'Decide later' }).click();

    const { page } = second;
    const entry = page.getByRole('article', { name: /^Unlock · Front door/ });
    expect(await entry.getByRole('row', { name: /^locked/ }).textContent()).toContain('yes→no');
    expect(await accessibility(page)).toEqual([]);
    await entry.getByRole('button', { name: 'Approve …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Unlock: Front door?' });
    expect(await dialog.getByRole('row', { name: /^locked/ }).isVisible()).toBe(true);
    expect(await accessibility(page)).toEqual([]);
    await saveScreenshot(page, 'confirmation');
    await dialog.getByRole('button', { name: 'Approve: unlock' }).click();

    const way = page.getByRole('region', { name: 'Approved: Unlock' });
    await way.getByText('Verified, done').waitFor();
    await way.getByText('The device reports the expected state.').waitFor();
    await page.getByText('No pending confirmations.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    const { command } = (await owner.get(`/v1/commands/${id}`)).body;
    expect(command).toMatchObject({ status: 'succeeded', confirmed_by: grace.userId });
    await first.page.getByText('No pending confirmations.').waitFor();
    expect([...first.browserErrors(), ...second.browserErrors()]).toEqual([]);
    await Promise.all([first.close(), second.close()]);
  });

  it('are refused with a reason, using the keyboard only', async () => {
    const id = await request('unlock');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: grace.token });
    await open('/confirmations');
    const refuse = page.getByRole('button', { name: 'Refuse …' });
    await refuse.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Refuse …');
    await page.keyboard.press('Enter');
    await page.getByLabel(/^Reason/).fill('Nobody is at home.');
    await page.keyboard.press('Enter');
    await page.getByText('No pending confirmations.').waitFor();
    expect(await statusOf(id)).toBe('cancelled');
    const { timeline } = (await owner.get(`/v1/commands/${id}`)).body.command;
    expect(timeline.at(-1)).toMatchObject({ status: 'cancelled', by: grace.userId, reason: 'Nobody is at home.' });
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('report that another user answered one in the meantime', async () => {
    const id = await request('unlock');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: grace.token });
    await open('/confirmations');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Approve …' }).click();
    const dialog = page.getByRole('dialog');
    await owner.post(`/v1/commands/${id}/cancel`, {});
    await dialog.getByText('The confirmation is no longer pending').waitFor();
    expect(await dialog.getByRole('button', { name: 'Approve: unlock' }).isDisabled()).toBe(true);
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await page.evaluate('document.activeElement.id')).toBe('content');
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('cannot be approved after they expire on the open page', async () => {
    const id = await request('unlock');
    const { page, open, close } = await openConsolePage(browser, at, { token: grace.token, fresh: true });
    await page.clock.install();
    await open('/confirmations');
    await page.getByRole('button', { name: 'Refuse …' }).click();
    await page.getByLabel(/^Reason/).fill('Nobody is at home.');
    // Each response has the time of the service, to which the page would set its clock back.
    await page.route(/\/(?:v1|ws)\//, (route) => route.abort());
    await page.clock.fastForward(301_000);
    await page.getByRole('dialog').getByText('The confirmation expired and the command was not sent.').waitFor();
    expect(await page.getByRole('button', { name: 'Refuse command' }).isDisabled()).toBe(true);
    await close();
    await owner.post(`/v1/commands/${id}/cancel`, {});
  });

  it('show why the service refuses an approval', async () => {
    await request('unlock');
    const { page, open, close } = await openConsolePage(browser, at, { token: grace.token, expects: [503] });
    await open('/confirmations');
    await page.getByRole('button', { name: 'Approve …' }).click();
    await at.services.setFlag('commands_disabled', true);
    await page.getByRole('button', { name: 'Approve: unlock' }).click();
    await page.getByRole('alert').waitFor();
    await at.services.setFlag('commands_disabled', false);
    await page.getByRole('button', { name: 'Approve: unlock' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await close();
  });

  it('can be answered on a small screen, in light and dark colours', async () => {
    const id = await request('unlock');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: grace.token, width: 400 },
    });
    await open('/confirmations');
    await page.getByRole('button', { name: 'Refuse …' }).waitFor();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    await page.getByRole('button', { name: 'Approve …' }).click();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    await page.getByRole('button', { name: 'Approve: unlock' }).click();
    await page.getByText('Verified, done').waitFor();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    await eventually(async () => (await statusOf(id)) === 'succeeded');
    await open(`/commands/${id}`);
    await page.getByRole('heading', { name: 'Result' }).waitFor();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

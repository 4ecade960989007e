import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { inviteMember, type Member } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, openConsolePage, overflowsHorizontally, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

const gate = { action: 'open_gate', safetyClass: 'CRITICAL', description: 'Opens the gate' };
const SENTENCE = "'open_gate' will need no confirmation: it is CRITICAL now, and becomes NORMAL.";

describe.runIf(hasChromium())('manifests in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let grace: Member;
  let browser: Browser;
  let device = '';

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    grace = await inviteMember(at, owner, 'admin', 'grace');
    browser = await connectBrowser();
  });
  beforeEach(async () => {
    const { body } = await owner.patch('/v1/tenant/policy', { confirm_by: 'requester' });
    if (body.change_id !== undefined) await at.api(grace.token).post(`/v1/change-requests/${body.change_id}/approve`);
    device = (await register(owner, { device_type: 'esp32', name: 'Gate' })).device_id;
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  const path = () => `/v1/devices/${device}/manifest`;
  const classes = async (): Promise<string[]> =>
    ((await owner.get(path())).body.capabilities as { safetyClass: string }[]).map((one) => one.safetyClass);

  it('are added, and refused with the errors of the service', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, expects: [400, 404] },
    });
    await open(`/devices/${device}`);
    await page.getByRole('link', { name: 'Edit manifest' }).click();
    const text = page.getByLabel('Manifest as JSON');
    await text.fill('{');
    await page.getByText('The text is not a JSON object with a list of capabilities.').waitFor();
    expect(await page.getByRole('button', { name: 'Publish' }).isDisabled()).toBe(true);
    await text.fill(JSON.stringify({ capabilities: [{ action: 'revoke' }] }));
    await page.getByRole('button', { name: 'Publish' }).click();
    await page.getByText('is internal to the protocol').waitFor();
    await text.fill(JSON.stringify({ capabilities: [gate, { action: 'wave' }] }));
    await page.getByRole('button', { name: 'Publish' }).click();
    await page.getByText('Published.').waitFor();
    await page.getByText(', version 1').waitFor();
    expect(await classes()).toEqual(['CRITICAL', 'NORMAL']);
    expect(await accessibility(page)).toEqual([]);
    expect(await overflowsHorizontally(page)).toBe(false);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('that get weaker show what gets weaker, and are published after the confirmation', async () => {
    await owner.post(path(), { capabilities: [gate, { action: 'wave' }] });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, expects: [409] },
    });
    await open(`/devices/${device}/manifest`);
    await page.getByLabel('Safety class of wave').selectOption('CRITICAL');
    await page.getByLabel('Safety class of open_gate').selectOption('NORMAL');
    await page.getByRole('button', { name: 'Publish' }).click();
    const dialog = page.getByRole('dialog', { name: 'Make the manifest weaker?' });
    await dialog.getByText(SENTENCE).waitFor();
    expect(await accessibility(page)).toEqual([]);
    expect(await classes()).toEqual(['CRITICAL', 'NORMAL']);
    await dialog.getByRole('button', { name: 'Confirm change' }).click();
    await page.getByText('Published.').waitFor();
    expect(await classes()).toEqual(['NORMAL', 'CRITICAL']);
    await page.getByRole('button', { name: 'Remove wave' }).click();
    await page.getByRole('button', { name: 'Publish' }).click();
    await page.getByText(', version 3').waitFor();
    expect(await classes()).toEqual(['NORMAL']);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('that get weaker are approved or refused by another person in the list of confirmations', async () => {
    await owner.patch('/v1/tenant/policy', { confirm_by: 'another_principal' });
    await owner.post(path(), { capabilities: [gate] });
    const weaker = { version: 1, capabilities: [{ action: 'open_gate' }] };
    const refused = (await owner.put(path(), weaker)).body.change_id;
    const first = await openConsolePage(browser, at, { token: owner.token, expects: [403] });
    await first.open('/confirmations');
    const mine = first.page.getByRole('article', { name: 'New manifest · Gate' });
    await mine.getByRole('button', { name: 'Approve …' }).click();
    await first.page.getByRole('button', { name: 'Apply change' }).click();
    await first.page.getByText('The policy requires confirmation by another user than the requester.').waitFor();
    expect(await accessibility(first.page)).toEqual([]);
    await first.page.getByRole('button', { name: 'Cancel', exact: true }).click();

    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: grace.token });
    await open('/');
    await page.getByText('Waiting for confirmation: new manifest').waitFor();
    await open('/confirmations');
    const entry = page.getByRole('article', { name: 'New manifest · Gate' });
    await entry.getByText(SENTENCE).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await entry.getByRole('button', { name: 'Refuse …' }).click();
    await page.getByLabel(/^Reason/).fill('It must stay critical.');
    await page.getByRole('button', { name: 'Refuse change' }).click();
    await entry.waitFor({ state: 'detached' });
    const { change } = (await owner.get(`/v1/change-requests/${refused}`)).body;
    expect(change).toMatchObject({ status: 'refused', refusal_reason: 'It must stay critical.' });

    await owner.put(path(), weaker);
    await open('/confirmations');
    await entry.getByRole('button', { name: 'Approve …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Apply this change?' });
    await dialog.getByText(SENTENCE).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Apply change' }).click();
    await entry.waitFor({ state: 'detached' });
    expect(await classes()).toEqual(['NORMAL']);
    expect([...first.browserErrors(), ...browserErrors()]).toEqual([]);
    await Promise.all([first.close(), close()]);
  });
});

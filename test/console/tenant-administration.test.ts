import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember, type Member } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { eventually } from '../support/clock.ts';
import {
  accessibility,
  layoutProblems,
  openConsolePage,
  PHONES,
  startConsoleService,
} from '../support/console-page.ts';
import { register } from '../support/device.ts';
import { firmwareTestKey, sha256 } from '../support/firmware-key.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('administration in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let admin: Member;
  let viewer: Member;
  let browser: Browser;

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    admin = await inviteMember(at, owner, 'admin', 'grace');
    viewer = await inviteMember(at, owner, 'viewer', 'vera');
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  /**
   * Problems of the open page on a large screen, and on a small one in both colours. Shows it on the large screen again.
   */
  async function screenProblems(page: Page): Promise<string[]> {
    const large = { width: 1_280, colorScheme: 'light' } as const;
    const problems = await layoutProblems(page, [large, ...PHONES, { width: 320, colorScheme: 'light' }]);
    await page.setViewportSize({ width: large.width, height: 860 });
    await page.emulateMedia({ colorScheme: large.colorScheme });
    return problems;
  }

  const operator = async () => at.token('root', { email: 'root@example.com', scope: 'platform:admin' });

  it('lists the sessions of the user, ends one and signs out everywhere', async () => {
    const user = await inviteMember(at, owner, 'viewer', 'sid');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: user.token,
      expects: [401],
    });
    await open('/sessions');
    await page.getByText('this browser').waitFor();
    expect(await screenProblems(page)).toEqual([]);
    await page.getByRole('button', { name: 'End … Token' }).click();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'End session' }).click();
    // The browser's session was opened with that token.
    await page.getByLabel('Your token').waitFor();
    expect((await user.get('/v1/auth/me')).status).toBe(401);
    const again = await at.token(user.sub, { email: user.email });
    await page.getByLabel('Your token').fill(again);
    await page.keyboard.press('Enter');
    await page.getByText('this browser').waitFor();
    await page.getByRole('button', { name: 'Sign out everywhere …' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Sign out everywhere' }).click();
    await page.getByLabel('Your token').waitFor();
    expect((await at.api(again).get('/v1/auth/me')).status).toBe(401);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('creates a key that is shown once, rotates and revokes it', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: admin.token,
      expects: [400],
    });
    await open('/keys');
    await page.getByText('No keys yet.').waitFor();
    await page.getByRole('button', { name: 'New key …' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Night shift');
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByText('scopes: must name scopes').waitFor();
    await page.getByLabel('Everything that your role allows').check();
    expect(await page.getByLabel('read:devices').isDisabled()).toBe(true);
    await page.getByLabel('Only the scopes below').check();
    await page.getByLabel('read:devices').check();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'Key Night shift' });
    const key = `${await shown.locator('code').textContent()}`;
    expect(key).toMatch(/^twk_[a-z2-7]{8}_/);
    const devices = (credential: string) => at.api(credential).get('/v1/devices');
    expect((await devices(key)).status).toBe(200);
    await shown.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('row', { name: /^Night shift/ }).waitFor();
    expect(await page.content()).not.toContain(key);
    expect(await screenProblems(page)).toEqual([]);

    await page.getByRole('button', { name: 'Rotate … Night shift' }).click();
    await page.getByRole('button', { name: 'Rotate key' }).click();
    const rotated = `${await shown.locator('code').textContent()}`;
    expect([(await devices(key)).status, (await devices(rotated)).status]).toEqual([401, 200]);
    await shown.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Revoke … Night shift' }).click();
    await page.getByRole('button', { name: 'Revoke key' }).click();
    await page.getByRole('button', { name: 'Revoke … Night shift' }).waitFor({ state: 'detached' });
    expect((await devices(rotated)).status).toBe(401);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('creates a key that is restricted to a room, and shows its restriction by names', async () => {
    const room = await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: 'Living room' });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: admin.token });
    await open('/keys');
    await page.getByRole('button', { name: 'New key …' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Living room lights');
    await page.getByLabel('read:devices').check();
    await page.getByLabel('Only what is selected').check();
    await page.getByLabel('Living room (Home)').check();
    await page.getByLabel('light', { exact: true }).check();
    await page.getByLabel('turn_on', { exact: true }).check();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Create key' }).click();
    const shown = page.getByRole('dialog', { name: 'Key Living room lights' });
    const key = `${await shown.locator('code').textContent()}`;
    await shown.getByRole('button', { name: 'Done' }).click();
    await page
      .getByText('Only room Living room (Home); only devices of the category light; only the actions turn_on')
      .waitFor();
    expect((await at.api(key).get('/v1/auth/me')).body.restrict_to).toEqual({
      ...{ rooms: [room.body.id], categories: ['light'], actions: ['turn_on'] },
    });
    expect(await accessibility(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('signs a member out everywhere, invites one, changes a role, and removes a member', async () => {
    const mona = await inviteMember(at, owner, 'viewer', 'mona');
    const uma = await inviteMember(at, owner, 'user', 'uma');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: admin.token });
    await open('/members');
    await page.getByRole('button', { name: `Sign out … ${mona.email}` }).click();
    await page.getByRole('button', { name: 'Sign out everywhere' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect((await mona.get('/v1/auth/me')).status).toBe(401);

    await page.getByRole('button', { name: 'Invite member …' }).click();
    await page.getByLabel('Email').fill('ines@example.com');
    await page.getByLabel('Role', { exact: true }).selectOption('viewer');
    expect(await page.getByLabel('Role', { exact: true }).getByText('owner').count()).toBe(0);
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Invite', exact: true }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    await page
      .getByRole('row', { name: /^ines@example.com/ })
      .getByText('invited')
      .waitFor();
    await page.getByLabel('Role of uma@example.com').selectOption('viewer');
    await eventually(async () => (await uma.get('/v1/auth/me')).body.user.role === 'viewer');
    expect(await screenProblems(page)).toEqual([]);
    // Members above the user's own role cannot be changed.
    expect(await page.getByLabel('Role of ada@example.com').count()).toBe(0);
    await page.getByRole('button', { name: 'Remove … uma@example.com' }).click();
    await page.getByRole('button', { name: 'Remove member' }).click();
    await page.getByRole('row', { name: /^uma@example.com/ }).waitFor({ state: 'detached' });
    expect((await uma.get('/v1/auth/me')).body.has_tenant).toBe(false);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('drafts firmware, uploads it, releases it to a percentage of the devices, and withdraws it', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: admin.token });
    await open('/firmware');
    await page.getByRole('button', { name: 'New release …' }).click();
    await page.getByLabel('Device type').fill('smart_light');
    await page.getByLabel('Version').fill('1.5.0');
    await page.getByLabel('Release notes').fill('Smoother dimming');
    await page.getByRole('button', { name: 'Create draft' }).click();
    const row = page.getByRole('row', { name: /^1\.5\.0/ });
    await row.getByText('none yet').waitFor();
    await row.locator('input[type=file]').setInputFiles({
      ...{ name: 'light.bin', mimeType: 'application/octet-stream', buffer: Buffer.from('firmware') },
    });
    await row.getByRole('button', { name: 'Release … 1.5.0' }).click();
    await page.getByLabel('Share of devices').fill('25');
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Release to 25 %' }).click();
    await row.getByRole('cell', { name: '25 %', exact: true }).waitFor();
    expect(await screenProblems(page)).toEqual([]);
    const { releases } = (await owner.get('/v1/firmware')).body;
    expect(releases[0]).toMatchObject({ version: '1.5.0', status: 'released', rollout_percent: 25 });
    await row.getByRole('button', { name: 'Withdraw … 1.5.0' }).click();
    await page.getByRole('button', { name: 'Withdraw release' }).click();
    await row.getByText('withdrawn').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('takes the signature of firmware that needs one, and shows the key that verified it', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: admin.token });
    const key = firmwareTestKey();
    const content = Buffer.from('signed firmware');
    await owner.post('/v1/firmware/signing/keys', { public_key: key.publicKey, name: 'Release key' });
    const url = { url: 'https://example.com/light.bin', checksum: sha256(content) };
    const draft = await owner.post('/v1/firmware/release', { device_type: 'smart_light', version: '1.6.0', ...url });
    expect(draft.status).toBe(201);
    await open('/firmware');
    await page.getByText('Releases need a signature of a registered firmware key.').waitFor();
    const row = page.getByRole('row', { name: /^1\.6\.0/ });
    await row.getByRole('button', { name: 'Release … 1.6.0' }).click();
    await page.getByLabel('Signature').fill(` ${key.sign(content, { version: '1.6.0' })} `);
    await page.getByLabel('Size of the file at the URL (bytes)').fill(`${content.length}`);
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Release to 100 %' }).click();
    await row.getByText('Signed by Release key').waitFor();
    await owner.delete(`/v1/firmware/signing/keys/${key.keyId}`);
    await page.reload();
    await row.getByText(`Signed by ${key.keyId.slice(0, 8)}… (removed key)`).waitFor();
    expect(await accessibility(page)).toEqual([]);
    expect((await owner.patch('/v1/firmware/signing', { signature_required: false })).status).toBe(200);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('changes the confirmation policy', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: admin.token });
    await open('/policy');
    const everyone = page.getByRole('group', { name: 'Confirmed by', exact: true });
    await everyone.getByLabel('Anyone other than the requester').check();
    const agents = page.getByRole('group', { name: 'Commands and changes of AI agents also confirmed by' });
    expect(await agents.getByLabel('A person').isChecked()).toBe(true);
    await page.getByLabel('Confirmation deadline (seconds)').fill('120');
    expect(await screenProblems(page)).toEqual([]);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    expect((await owner.get('/v1/tenant/policy')).body.policy).toEqual({
      confirm_by: 'another_principal',
      agent_confirm_by: 'person',
      confirm_ttl_s: 120,
    });
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows actions and refusals, by person and by subject', async () => {
    const lamp = await register(owner, { device_type: 'smart_light', name: 'Lamp' });
    await viewer.get('/v1/devices');
    await owner.post('/v1/homes', { home_name: 'Cabin' });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: admin.token });
    await open('/audit');
    const refused = page.getByRole('row').filter({ hasText: 'vera@example.com' });
    await refused.getByText('forbidden role', { exact: true }).first().waitFor();
    expect(await refused.first().getByRole('cell').nth(4).textContent()).toMatch(/^rest 127\.0\.0\.1 \S/);
    const started = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download CSV' }).click();
    expect((await started).suggestedFilename()).toMatch(/^audit-[0-9-]{10}\.csv$/);
    expect(await screenProblems(page)).toEqual([]);
    await page.getByLabel('User', { exact: true }).selectOption({ label: 'ada@example.com' });
    await page.getByLabel('Target', { exact: true }).fill(`device:${lamp.device_id}`);
    await page.waitForURL(/subject=device/);
    await page.getByRole('row').filter({ hasText: 'Register device' }).waitFor();
    expect(await page.getByRole('row').filter({ hasText: 'vera@example.com' }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('finds actions by the names that it shows, and in a range of times', async () => {
    const lamp = await register(owner, { device_type: 'smart_light', name: 'Hall lamp' });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: admin.token });
    const parameter = (name: string) => new URL(page.url()).searchParams.get(name);
    await open('/audit');
    const row = page.getByRole('row', { name: /Register device.*Hall lamp/ });
    await row.getByRole('link', { name: 'Hall lamp' }).waitFor();
    const time = row.getByRole('cell').first();
    expect(await time.textContent()).toMatch(/^\d{1,2} \w+ \d{4} \d\d:\d\d:\d\d$/);
    await page.getByLabel('Action', { exact: true }).fill('register device');
    await page.waitForURL(/action=registerDevice/);
    await page.getByLabel('Target', { exact: true }).fill('No such lamp');
    await page.getByText('No entry with this name.').waitFor();
    await page.getByLabel('Target', { exact: true }).fill('hall lamp');
    await page.waitForURL(/subject=device/);
    expect(parameter('subject')).toBe(`device:${lamp.device_id}`);
    await row.waitFor();
    await page.getByLabel('From (Europe/Berlin)').fill('2100-01-01T00:00');
    await page.getByText('No matching entries.').waitFor();
    expect(parameter('from')).toBe('2099-12-31T23:00:00.000Z');
    const file = await page.getByRole('link', { name: 'Download CSV' }).getAttribute('href');
    expect(file).toContain('from=2099-12-31');
    await page.getByLabel('From (Europe/Berlin)').fill('');
    await page.getByLabel('To (Europe/Berlin)').fill('2100-01-01T00:00');
    await row.waitFor();
    expect(await accessibility(page)).toEqual([]);
    // On a small screen the user and the target are below the action, and the times are still whole.
    await page.setViewportSize({ width: 400, height: 860 });
    await page
      .getByRole('row', { name: /Register device.*ada@example\.com/ })
      .first()
      .waitFor();
    const isCut =
      "[...document.querySelectorAll('.audit-time > span')].some((one) => one.scrollWidth > one.clientWidth)";
    expect(await page.evaluate(isCut)).toBe(false);
    expect(await layoutProblems(page, PHONES.slice(0, 1))).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows a viewer their own keys and the firmware, no controls, and no other page', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: viewer.token });
    await open('/firmware');
    await page.getByRole('table').waitFor();
    expect(await page.getByRole('button', { name: /…/ }).count()).toBe(0);
    const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    expect(await menu.allTextContents()).toEqual([
      'Home',
      'Dashboards',
      'Homes',
      'Plans',
      'Memories',
      'API keys',
      'Sessions',
      'Firmware',
    ]);
    for (const path of ['/audit', '/members', '/policy', '/devices', '/platform/flags']) {
      await page.goto(`${at.url}/console${path}`);
      await page
        .getByRole('heading', { level: 1, name: 'This page does not exist, or your role cannot open it.' })
        .waitFor();
    }
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('lets platform operators suspend and resume a tenant, and set a flag', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: await operator() });
    await open('/platform/tenants');
    const row = page.getByRole('row', { name: /^Tenant of ada/ });
    await row.getByRole('button', { name: /^Suspend/ }).click();
    await page.getByLabel(/^Reason/).fill('Unpaid since March');
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Suspend tenant' }).click();
    await row.getByText('suspended').waitFor();
    expect(await screenProblems(page)).toEqual([]);
    expect((await owner.get('/v1/homes')).body.code).toBe('TENANT_SUSPENDED');
    await row.getByRole('button', { name: /^Resume/ }).click();
    await page.getByRole('button', { name: 'Resume tenant' }).click();
    await row.getByText('active').waitFor();
    await row.getByRole('button', { name: /^Tier/ }).click();
    await page.getByLabel('Tier', { exact: true }).fill('pro');
    await page.getByRole('button', { name: 'Set tier' }).click();
    await row.getByText('pro').waitFor();

    await open('/platform/flags');
    await page.getByRole('button', { name: 'Set … commands disabled' }).click();
    await page.getByRole('button', { name: 'Set flag' }).click();
    await page.getByRole('button', { name: 'Clear … commands disabled' }).waitFor();
    expect(await screenProblems(page)).toEqual([]);
    expect(at.services.flags().commands_disabled).toBe(true);
    await page.getByRole('button', { name: 'Clear … commands disabled' }).click();
    await page.getByRole('button', { name: 'Clear flag' }).click();
    await page.getByRole('button', { name: 'Set … commands disabled' }).waitFor();
    await open('/platform/nodes');
    const node = page.getByRole('row').nth(1);
    await node.getByText('active').waitFor();
    await node.getByRole('cell', { name: '256', exact: true }).waitFor();
    expect(await node.getByRole('button').count()).toBe(0);
    expect(await screenProblems(page)).toEqual([]);
    await open('/platform/audit');
    await page.getByRole('row').filter({ hasText: 'Set flag' }).first().waitFor();
    expect(await accessibility(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

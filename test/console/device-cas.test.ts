import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember, type Member } from '../support/access-fixture.ts';
import { issue, makeAuthority, type TestCertificate } from '../support/certificates.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import {
  accessibility,
  layoutProblems,
  openConsolePage,
  PHONES,
  startConsoleService,
} from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('CAs of devices in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let admin: Member;
  let browser: Browser;

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    admin = await inviteMember(at, owner, 'admin', 'grace');
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  const pem = (name: string, text: string) => ({ name, mimeType: 'application/x-pem-file', buffer: Buffer.from(text) });
  /** Fills in the dialog with a proof for the code that it shows. */
  async function prove(page: Page, authority: TestCertificate): Promise<void> {
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Get a code' }).click();
    const code = `${await dialog.locator('code').textContent()}`;
    expect(code).toMatch(/^[0-9a-f]{48}$/);
    await dialog.getByLabel('CA certificate (PEM)').setInputFiles(pem('ca.pem', authority.pem));
    const proof = `description\n${issue(authority, code).pem}`;
    await dialog.getByLabel('Verification certificate (PEM)').setInputFiles(pem('proof.pem', proof));
  }

  it('are registered with a proof and a rule, renewed, deactivated, activated and deleted', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: admin.token, width: 1_440, expects: [400, 409] },
    });
    const authority = makeAuthority({ commonName: 'Plant 1', notAfter: at.clock.now() + 10 * 86_400_000 });
    await open('/cas');
    await page.getByText('No CAs yet.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Register CA …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Register a CA' });
    await dialog.getByLabel('Name', { exact: true }).fill('Factory');
    await prove(page, authority);
    await dialog.getByLabel('Register unknown devices into').selectOption({ label: 'Home' });
    await dialog.getByLabel('Device type').fill('smart_light');
    await dialog.getByLabel('Common names (optional)').fill('lamp-*');
    expect(await accessibility(page)).toEqual([]);
    // A private key is not sent.
    const key = authority.keys.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
    await dialog.getByLabel('CA certificate (PEM)').setInputFiles(pem('ca.pem', key + authority.pem));
    await dialog.getByRole('button', { name: 'Register CA' }).click();
    await dialog.getByText('The file of the CA certificate has a private key.').waitFor();
    expect((await owner.get('/v1/cas')).body.cas).toEqual([]);
    await dialog.getByLabel('CA certificate (PEM)').setInputFiles(pem('ca.pem', authority.pem));
    await dialog.getByRole('button', { name: 'Register CA' }).click();

    const row = page.getByRole('row', { name: /^Factory/ });
    await row.getByText('CN=Plant 1').waitFor();
    await row.getByText('smart_light into Home, common names lamp-*, at most 1000').waitFor();
    await row.getByText(/^Set by you/).waitFor();
    await row.getByText('ends soon').waitFor();
    const [ca] = (await owner.get('/v1/cas')).body.cas;
    const device = await register(owner);
    await owner.post(`/v1/devices/${device.device_id}/certificates`, { ca_id: ca.id, common_name: 'lamp-1' });
    await page.reload();
    await row.getByRole('cell', { name: '1', exact: true }).waitFor();
    expect(await accessibility(page)).toEqual([]);

    await row.getByRole('button', { name: 'Renew … Factory' }).click();
    await prove(page, makeAuthority({ commonName: 'Another', keys: authority.keys }));
    await page.getByRole('button', { name: 'Renew CA' }).click();
    await page.getByText(/registered with another subject/).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await row.getByRole('button', { name: 'Renew … Factory' }).click();
    await prove(page, makeAuthority({ commonName: 'Plant 1', keys: authority.keys }));
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Renew CA' }).click();
    await row.getByText('ends soon').waitFor({ state: 'detached' });
    await row.getByText('1 Jan 2040').waitFor();
    const [renewed] = (await owner.get('/v1/cas')).body.cas;
    expect([renewed.id, renewed.registration]).toEqual([ca.id, ca.registration]);
    expect(renewed.fingerprint).not.toBe(ca.fingerprint);

    await row.getByRole('button', { name: 'Deactivate … Factory' }).click();
    await page.getByRole('button', { name: 'Deactivate CA' }).click();
    await row.getByText('inactive').waitFor();
    expect((await owner.get(`/v1/cas/${ca.id}`)).body.ca.status).toBe('inactive');
    await row.getByRole('button', { name: 'Activate … Factory' }).click();
    await page.getByRole('button', { name: 'Activate CA' }).click();
    await row.getByRole('button', { name: 'Deactivate … Factory' }).waitFor();
    await row.getByRole('button', { name: 'Delete … Factory' }).click();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Delete CA' }).click();
    await page.getByText('No CAs yet.').waitFor();
    expect((await owner.get('/v1/cas')).body.cas).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('name who set a rule, also when they have lost their role or left', async () => {
    const setter = await inviteMember(at, owner, 'admin', 'sam');
    const id = await registered(setter);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    const me = (await setter.get('/v1/auth/me')).body.user.id;
    await owner.patch(`/v1/tenant/members/${me}`, { role: 'viewer' });
    await open('/cas');
    await page.getByText(/^Set by sam@example.com .*, now viewer$/).waitFor();
    expect((await owner.delete(`/v1/tenant/members/${me}`)).status).toBe(204);
    await page.reload();
    await page.getByText(/^Set by user .*, no longer a member$/).waitFor();
    expect(browserErrors()).toEqual([]);
    await owner.delete(`/v1/cas/${id}`);
    await close();
  });

  async function registered(by: Pick<Member, 'post'>): Promise<string> {
    const authority = makeAuthority({ commonName: `A certificate authority with a long name ${'x'.repeat(20)}` });
    const { verification_code: code } = (await by.post('/v1/cas/verifications')).body;
    const { status, body } = await by.post('/v1/cas', {
      ...{ name: 'Factory', certificate: authority.pem, verification_certificate: issue(authority, code).pem },
      registration: { home_id: owner.homeId, device_type: 'smart_light' },
    });
    expect(status).toBe(201);
    return body.id;
  }

  it('fit on screens of 400 and 1,440 px in both colours, with the dialog', async () => {
    const layouts = [{ width: 1_440, colorScheme: 'dark' }, ...PHONES] as const;
    const id = await registered(admin);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: admin.token });
    await open('/cas');
    await page.getByRole('row', { name: /^Factory/ }).waitFor();
    expect(await layoutProblems(page, layouts)).toEqual([]);
    await page.getByRole('button', { name: 'Register CA …' }).click();
    await page.getByRole('button', { name: 'Get a code' }).click();
    await page.getByRole('dialog').locator('code').waitFor();
    expect(await layoutProblems(page, layouts)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await owner.delete(`/v1/cas/${id}`);
    await close();
  });
});

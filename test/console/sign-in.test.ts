import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import {
  accessibility,
  layoutProblems,
  openConsolePage,
  PHONES,
  startConsoleService,
} from '../support/console-page.ts';
import { type IdentityProvider, startServiceWithProvider } from '../support/identity-provider.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('signing in to the console', () => {
  let idp: IdentityProvider;
  let at: TestService;
  let browser: Browser;

  beforeAll(async () => {
    for (const way of ['info', 'warn'] as const) vi.spyOn(console, way).mockImplementation(() => {});
    ({ at, idp } = await startServiceWithProvider(startConsoleService));
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
    await idp?.close();
  });

  const home = { name: 'Needs attention' };

  it('accepts a token, stores it nowhere in the page, and ends with signing out', async () => {
    const owner = await at.owner();
    const { page, open, browserErrors, close } = await openConsolePage(browser, at);
    await open('');
    await page.getByLabel('Your token').fill(owner.token);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', home).waitFor();
    const kept = await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])');
    expect(kept).not.toContain(owner.token.slice(-20));
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Your token').waitFor();
    expect((await page.context().request.get(`${at.url}/v1/auth/me`)).status()).toBe(401);
    expect((await at.api(owner.token).get('/v1/auth/me')).status).toBe(200);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows that signing out has failed, and does not appear signed out', async () => {
    const { token } = await at.owner();
    const { page, open, close } = await openConsolePage(browser, at, { token, expects: [503] });
    await open('');
    const refusal = { status: 503, code: 'STORE_UNAVAILABLE', detail: 'The store does not answer. Try again later.' };
    await page.route('**/v1/auth/logout', (route) =>
      route.fulfill({ status: 503, contentType: 'application/problem+json', json: refusal }),
    );
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page
      .getByRole('alert')
      .getByText('Signing out failed: The store does not answer. Try again later.')
      .waitFor();
    await page.getByRole('heading', home).waitFor();
    await page.unroute('**/v1/auth/logout');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Your token').waitFor();
    expect((await page.context().request.get(`${at.url}/v1/auth/me`)).status()).toBe(401);
    await close();
  });

  it('explains that a token is invalid', async () => {
    const { page, open, close } = await openConsolePage(browser, at);
    await open('');
    await page.getByLabel('Your token').fill('nonsense');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('alert').getByText('The token is invalid or expired.').waitFor();
    await close();
  });

  it('goes to the identity provider and back to the requested page', async () => {
    const { page, open, close } = await openConsolePage(browser, at, { expects: [404] });
    await open('/nowhere?find=lamp#part');
    await page.getByRole('link', { name: 'Sign in with your identity provider' }).click();
    await page.locator('input[name=login]').fill('grace');
    await page.locator('input[name=password]').fill('x');
    await page.getByRole('button').click();
    await page.locator('input[name=login]').waitFor({ state: 'detached' });
    await page.getByRole('button').click();
    await page.getByText('You are signed in as').waitFor();
    expect(page.url()).toBe(`${at.url}/console/nowhere?find=lamp#part`);
    await close();
  });

  it('works once with a link, which then disappears from the address', async () => {
    const owner = await at.owner();
    const { body } = await owner.post('/v1/auth/link');
    expect(body.url).toMatch(/\/console#sign-in=link_/);
    const first = await openConsolePage(browser, at);
    await first.page.goto(body.url);
    await first.page.getByRole('heading', { name: /^Sign in as .*@example\.com\?$/ }).waitFor();
    expect(await accessibility(first.page)).toEqual([]);
    await first.page.getByRole('button', { name: 'Continue' }).click();
    await first.page.getByRole('heading', home).waitFor();
    expect(first.page.url()).toBe(`${at.url}/console`);
    expect(first.browserErrors()).toEqual([]);
    const second = await openConsolePage(browser, at, { expects: [404] });
    await second.page.goto(body.url);
    await second.page.getByText('The link was already used').waitFor();
    await Promise.all([first.close(), second.close()]);
  });

  it('works with a link that is pasted into the open sign-in page, also after one that was used', async () => {
    const owner = await at.owner();
    const [used, link] = [(await owner.post('/v1/auth/link')).body.url, (await owner.post('/v1/auth/link')).body.url];
    expect((await at.api('').post('/v1/auth/session', { token: `${used}`.split('sign-in=')[1] })).status).toBe(204);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { expects: [404] });
    await open('');
    await page.evaluate("window.isSamePage = 'yes'");
    await page.goto(used);
    await page.getByText('The link was already used').waitFor();
    await page.goto(link);
    await page.getByRole('heading', { name: /^Sign in as .*@example\.com\?$/ }).waitFor();
    expect(await page.getByText('The link was already used').count()).toBe(0);
    expect([await page.evaluate('window.isSamePage'), page.url()]).toEqual(['yes', `${at.url}/console`]);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('heading', home).waitFor();
    // With a session a link is removed from the address, and not used after signing out.
    const { url } = (await owner.post('/v1/auth/link')).body;
    await page.goto(url);
    await page.waitForURL(`${at.url}/console`);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Your token').waitFor();
    expect(await page.getByRole('heading', { name: /^Sign in as/ }).count()).toBe(0);
    expect((await at.api('').post('/v1/auth/session', { token: `${url}`.split('sign-in=')[1] })).status).toBe(204);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('does not use a link that the user declines', async () => {
    const owner = await at.owner();
    const { body } = await owner.post('/v1/auth/link');
    const { page, close } = await openConsolePage(browser, at);
    await page.goto(body.url);
    await page.getByRole('heading', { name: /^Sign in as/ }).waitFor();
    const signedIn = async () => (await page.context().request.get(`${at.url}/v1/auth/me`)).status();
    expect(await signedIn()).toBe(401);
    // A link is one question: no second button signs in.
    expect(await page.getByRole('button', { name: 'Sign in' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('heading', { name: /^Sign in as/ }).waitFor({ state: 'detached' });
    await page.getByLabel('Your token').waitFor();
    expect([await signedIn(), page.url()]).toEqual([401, `${at.url}/console`]);
    const token = `${body.url}`.split('sign-in=')[1];
    expect((await at.api('').post('/v1/auth/session', { token })).status).toBe(204);
    await close();
  });

  it('keeps the current session when a link is opened, which then cannot be used later', async () => {
    const [ada, grace] = [await at.owner(), await at.owner()];
    const { body } = await grace.post('/v1/auth/link');
    const { page, close } = await openConsolePage(browser, at, { token: ada.token });
    await page.goto(body.url);
    await page.getByRole('heading', home).waitFor();
    expect(page.url()).toBe(`${at.url}/console`);
    const me = async () => (await page.context().request.get(`${at.url}/v1/auth/me`)).json();
    expect((await me()).user.id).toBe(ada.userId);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
    expect((await page.context().request.get(`${at.url}/v1/auth/me`)).status()).toBe(401);
    await close();
  });

  it('succeeds for only one of two users who open a link at the same time', async () => {
    const owner = await at.owner();
    const { body } = await owner.post('/v1/auth/link');
    const token = `${body.url}`.split('sign-in=')[1];
    const open = () => at.api('').post('/v1/auth/session', { token });
    const answers = await Promise.all([open(), open(), open()]);
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 401, 401]);
  });

  it('leads a user without a tenant to create one, or to the one they are invited to', async () => {
    const owner = await at.owner();
    const invited = await at.token('ines', { email: 'ines@example.com' });
    await owner.post('/v1/tenant/members', { email: 'ines@example.com', role: 'viewer' });
    const ines = await openConsolePage(browser, at, { token: invited });
    await ines.open('');
    await ines.page.getByRole('button', { name: /^Join .* as viewer$/ }).click();
    await ines.page.getByRole('heading', home).waitFor();
    const noah = await openConsolePage(browser, at, { token: await at.token('noah') });
    await noah.open('');
    expect(await accessibility(noah.page)).toEqual([]);
    await noah.page.getByLabel('Name of the new tenant').fill('Ark');
    await noah.page.getByRole('button', { name: 'Create tenant' }).click();
    await noah.page.getByRole('heading', home).waitFor();
    await Promise.all([ines.close(), noah.close()]);
  });

  it('shows the sign-in page when the session has ended', async () => {
    const owner = await at.owner();
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('');
    await owner.post('/v1/auth/logout');
    await page.reload();
    await page.getByLabel('Your token').waitFor();
    await close();
  });

  it('is accessible, on a small screen and in light and dark colours', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { width: 400 });
    await open('');
    await page.getByRole('link', { name: 'Sign in with your identity provider' }).waitFor();
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows a viewer no page of admins, and requests none', async () => {
    const owner = await at.owner();
    const viewer = await inviteMember(at, owner, 'viewer');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: viewer.token });
    await open('');
    await page.getByRole('heading', home).waitFor();
    expect(await page.getByRole('link', { name: 'Actors' }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    const { body } = await owner.get('/v1/audit?outcome=refused');
    expect(body.entries?.filter(({ by }: { by: string }) => by === viewer.userId) ?? []).toEqual([]);
    await close();
  });
});

import { hash, randomBytes } from 'node:crypto';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { userCodeOf } from '../../src/services/handshakes.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { type IdentityProvider, startServiceWithProvider } from '../support/identity-provider.ts';
import type { TestService } from '../support/service.ts';

/** Runs in the page: the contrasts (WCAG 2.2 §1.4.3) of its texts, and whether it is wider than the screen. */
const READABLE = `(() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const styleOf = (selector) => getComputedStyle(document.querySelector(selector));
  const panel = styleOf('main').backgroundColor;
  const ratios = ['h1', 'p', '.quiet', 'label'].map((selector) => contrast(styleOf(selector).color, panel));
  const button = styleOf('#token-form button');
  ratios.push(contrast(button.color, button.backgroundColor));
  return { ratios, wide: document.documentElement.scrollWidth > innerWidth };
})()`;

const random = () => randomBytes(32).toString('base64url');

describe.runIf(hasChromium())('the page of the CLI handshake, in a browser', () => {
  let idp: IdentityProvider;
  let at: TestService;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let complaints: string[];
  let [code, verifier] = ['', ''];

  beforeAll(async () => {
    for (const way of ['info', 'warn'] as const) vi.spyOn(console, way).mockImplementation(() => {});
    ({ at, idp } = await startServiceWithProvider());
    browser = await connectBrowser();
    context = await browser.newContext();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
    await idp?.close();
  });
  beforeEach(async () => {
    page = await context.newPage();
    page.setDefaultTimeout(inject('pollMs'));
    complaints = [];
    // The 401 for a user without a session is an error to the browser.
    page.on('console', (sent) => {
      const ours = sent.location().url.startsWith(at.url) || sent.location().url === '';
      if (sent.type() === 'error' && ours && !/status of 4(01|03|10)/.test(sent.text())) complaints.push(sent.text());
    });
    page.on('pageerror', (error) => complaints.push(`${error}`));
    [code, verifier] = [random(), random()];
  });
  afterEach(async () => {
    await page.close();
    await context.clearCookies();
    expect(complaints).toEqual([]);
  });

  const open = () =>
    page.goto(`${at.url}/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}&host=ada-laptop`);
  const poll = async () =>
    (await at.api().get(`/v1/auth/handshake/${code}`, { 'x-handshake-verifier': verifier })).body;
  const byToken = async (token: string) => {
    await page.getByLabel('Your token').fill(token);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  };
  const typed = () => page.getByLabel('The 6-character code in your terminal');
  const allow = () => page.getByRole('button', { name: 'Allow' }).click();
  const messages = (words: string | RegExp) => page.getByRole('status').getByText(words).waitFor();

  it('signs in with a token, approves with the code, and the command line gets its token', async () => {
    await open();
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Sign in a command line');
    expect(await page.getByText('ada-laptop').isVisible()).toBe(true);
    expect(await typed().isVisible()).toBe(false);
    await byToken(await at.token('ada', { email: 'ada@example.com' }));
    await page.getByText('ada@example.com').waitFor();
    expect(await page.evaluate('document.activeElement.id')).toBe('user-code');
    await page.keyboard.type(userCodeOf(code).toLowerCase());
    await page.keyboard.press('Enter');
    await messages('The command line is signed in');
    expect(await poll()).toMatchObject({ status: 'approved', access_token: expect.any(String) });
  });

  it('signs in at the identity provider, and returns to the same page', async () => {
    await open();
    await page.getByRole('link', { name: 'Sign in with your identity provider' }).click();
    await page.locator('input[name=login]').fill('grace');
    await page.locator('input[name=password]').fill('x');
    await page.getByRole('button').click();
    await page.getByRole('button').click();
    await page.getByText('grace').waitFor();
    await typed().fill(userCodeOf(code));
    await allow();
    await messages('The command line is signed in');
    const { access_token } = await poll();
    expect((await at.api(access_token).get('/v1/auth/me')).body.user.ext_id).toBe('grace');
  });

  it('explains a wrong code, and ends after the fifth one', async () => {
    await open();
    await byToken('nonsense');
    await messages('The token is invalid or expired.');
    await byToken(await at.token('ada'));
    for (let n = 0; n < 4; n++) {
      await typed().fill('AAAAAA');
      await allow();
      await messages('The code does not match the 6 characters');
    }
    await typed().fill('AAAAAA');
    await allow();
    await messages('Too many wrong codes');
    await typed().fill(userCodeOf(code));
    await allow();
    await messages('Start it again');
    expect(await typed().isVisible()).toBe(false);
  });

  it('lets another user sign in', async () => {
    await open();
    await byToken(await at.token('ada'));
    await page.getByText('You are signed in as').waitFor();
    await page.getByRole('button', { name: 'Not you?' }).click();
    await page.getByLabel('Your token').waitFor();
    expect((await context.cookies()).map(({ name }) => name)).not.toContain('twinkeep_session');
  });

  it('keeps its session where scripts cannot read it', async () => {
    await open();
    await byToken(await at.token('ada'));
    await typed().waitFor();
    expect(await page.evaluate('document.cookie')).toBe('');
    const [session] = (await context.cookies()).filter(({ name }) => name === 'twinkeep_session');
    expect(session).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
  });

  it('cannot be shown in a frame', async () => {
    await page.setContent(`<iframe src="${at.url}/v1/auth/cli?code=${code}&challenge=${random()}"></iframe>`);
    await expect.poll(() => complaints.length).toBeGreaterThan(0);
    expect(complaints.splice(0).join()).toMatch(/frame-ancestors|X-Frame-Options|refused to connect/i);
  });

  it.each([
    ['another site, which does not get the cookie', 'localhost'],
    ['another port of this host, which gets the cookie', '127.0.0.1'],
  ])('does nothing for a page of %s', async (_, host) => {
    await open();
    await byToken(await at.token('ada'));
    await typed().waitFor();
    await page.goto(`${idp.issuer.replace('127.0.0.1', host)}/nowhere`);
    const notified = await page.evaluate(
      `(async (url, body) => {
        const send = (mode, type) =>
          fetch(url + '/v1/auth/cli/approve', { method: 'POST', credentials: 'include', mode, headers: { 'content-type': type }, body });
        const read = () => fetch(url + '/v1/auth/csrf', { credentials: 'include' });
        const ways = [() => send('no-cors', 'text/plain'), () => send('cors', 'text/plain'), () => send('cors', 'application/json'), read];
        const told = [];
        for (const way of ways) told.push(await way().then((answer) => answer.type, () => 'blocked'));
        return told;
      })(${JSON.stringify(at.url)}, ${JSON.stringify(JSON.stringify({ code, user_code: userCodeOf(code) }))})`,
    );
    // Such a page can only send a POST that is not JSON and has no token.
    expect(['blocked', 'opaque']).toContain((notified as string[])[0]);
    expect((notified as string[]).slice(1)).toEqual(['blocked', 'blocked', 'blocked']);
    expect(await poll()).toEqual({ status: 'pending' });
    complaints.splice(0);
  });

  it.each(['light', 'dark'] as const)('is readable in the %s scheme and on a small screen', async (colorScheme) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 320, height: 560 });
    await open();
    await page.getByLabel('Your token').waitFor();
    const seen = (await page.evaluate(READABLE)) as { ratios: number[]; wide: boolean };
    expect(seen.wide).toBe(false);
    for (const ratio of seen.ratios) expect(ratio).toBeGreaterThan(4.5);
  });

  it('shows the mark of the product', async () => {
    await open();
    const width = `document.querySelector('main img').naturalWidth`;
    await page.waitForFunction(`${width} > 0`);
    expect(await page.getByRole('img').count()).toBe(0);
  });

  it('has an accessible name for each of its fields and buttons', async () => {
    await open();
    await byToken(await at.token('ada'));
    await typed().waitFor();
    const nameless = await page.evaluate(
      `[...document.querySelectorAll('input, button, a')]
        .filter((one) => !(one.localName === 'input' ? one.labels.length : one.textContent.trim()))
        .map((one) => one.outerHTML)`,
    );
    expect(nameless).toEqual([]);
    expect(await page.locator('html').getAttribute('lang')).toBe('en');
  });
});

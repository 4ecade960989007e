import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { openConsolePage, startConsoleService } from '../support/console-page.ts';
import { type Deployment, makePgliteDeployment, makePostgresDeployment } from '../support/deployment.ts';
import { startService, type TestService } from '../support/service.ts';

/** Maximum number of refused requests before the page detects that its session has ended. */
const MOST_REFUSED = 3;

/** Counts 401 responses from now on. */
function refusedAt(page: Page): () => number {
  let refused = 0;
  page.on('response', (response) => {
    if (response.status() === 401) refused += 1;
  });
  return () => refused;
}

describe.runIf(hasChromium())('a session of the console that ends while a page is open', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await connectBrowser();
  });
  afterAll(() => browser?.close());

  const field = (page: Page) => page.getByLabel('Your token');
  const signIn = async (page: Page, token: string) => {
    await field(page).fill(token);
    await page.keyboard.press('Enter');
  };

  describe('in one service', () => {
    let at: TestService;
    beforeAll(async () => {
      at = await startConsoleService();
    });
    afterAll(() => at?.stop());

    it.each([
      ['', 'Needs attention'],
      ['/devices', 'Devices'],
      ['/confirmations', 'Confirmations'],
    ])('with its token shows the sign-in page at %j, and the same page after signing in', async (path, name) => {
      const owner = await at.owner();
      const { page, open, close } = await openConsolePage(browser, at, { token: owner.token });
      await open(path);
      await page.getByRole('heading', { name }).first().waitFor();
      await page.getByText('Live', { exact: true }).waitFor();
      const refused = refusedAt(page);
      at.clock.advance(86_400_000);
      await field(page).waitFor();
      expect(page.url()).toBe(`${at.url}/console${path}`);
      at.clock.advance(-86_400_000);
      await signIn(page, owner.token);
      await page.getByText('Live', { exact: true }).waitFor();
      await page.getByRole('heading', { name }).first().waitFor();
      expect(page.url()).toBe(`${at.url}/console${path}`);
      expect(refused()).toBeGreaterThan(0);
      expect(refused()).toBeLessThanOrEqual(MOST_REFUSED);
      await close();
    });

    it('after five seconds also shows the sign-in page, without the cookie', async () => {
      const { userId } = await at.owner('brief');
      expect(userId).toBeTypeOf('string');
      const token = await at.token('brief', { ttlS: 5 });
      const { page, context, open, close } = await openConsolePage(browser, at, { token });
      await open('');
      await page.getByText('Live', { exact: true }).waitFor();
      const refused = refusedAt(page);
      // As the browser does when the cookie expires.
      await context.clearCookies();
      at.clock.advance(5_000);
      await field(page).waitFor();
      at.clock.advance(-5_000);
      await signIn(page, await at.token('brief'));
      await page.getByRole('heading', { name: 'Needs attention' }).waitFor();
      expect(refused()).toBeLessThanOrEqual(MOST_REFUSED);
      await close();
    });

    it('is not shown to the next user who signs in', async () => {
      const [ada, grace] = [await at.owner('ada'), await at.owner('grace')];
      const { page, open, close } = await openConsolePage(browser, at, { token: ada.token });
      await open('');
      await page.getByText('ada@example.com').waitFor();
      await ada.post('/v1/auth/logout');
      await field(page).waitFor();
      await signIn(page, grace.token);
      await page.getByText('grace@example.com').waitFor();
      expect(await page.getByText('ada@example.com').count()).toBe(0);
      await close();
    });
  });

  describe('over a restart of the service', () => {
    let deployment: Deployment;
    let at: TestService;
    beforeAll(async () => {
      deployment = (await makePostgresDeployment()) ?? (await makePgliteDeployment());
      at = await startService(deployment.env);
    });
    afterAll(async () => {
      await at?.stop();
      await deployment?.remove();
    });

    /** A wall with the inbox, and the port to which the service returns. */
    async function openWall(sub: string) {
      const owner = await at.owner(sub);
      const tiles = [{ kind: 'confirmations', id: 'w', x: 0, y: 0, w: 4, h: 3 }];
      const { body } = await owner.post('/v1/dashboards', { name: 'Hallway', tiles });
      const opened = await openConsolePage(browser, at, { token: owner.token });
      await opened.open(`/dashboards/${body.dashboard.id}?wall`);
      await opened.page.getByText('Nothing waits for confirmation.').waitFor();
      return { ...opened, owner, port: new URL(at.url).port };
    }

    it('continues on a wall, without a person', async () => {
      const { page, close, port } = await openWall('ada');
      const refused = refusedAt(page);
      await at.stop();
      await page.getByText(/^As of \d/).waitFor();
      at = await startService({ ...deployment.env, PORT: port });
      await expect.poll(() => page.getByText(/^No connection since/).count()).toBe(0);
      await page.getByText('Nothing waits for confirmation.').waitFor();
      expect(refused()).toBe(0);
      await close();
    });

    it('shows the sign-in page if it was closed before the service is back, and a wall returns after a sign-in in another tab', async () => {
      const { page, context, close, owner, port } = await openWall('grace');
      const refused = refusedAt(page);
      const [cookie] = (await context.cookies()).filter(({ name }) => name === 'twinkeep_session');
      await at.stop();
      await page.getByText(/^No connection since \d/).waitFor();
      const elsewhere = await startService(deployment.env);
      await elsewhere.services.cookieSessions.close(cookie?.value ?? '');
      await elsewhere.stop();
      at = await startService({ ...deployment.env, PORT: port });
      await field(page).waitFor();
      const other = await context.newPage();
      await other.goto(`${at.url}/console`);
      await signIn(other, owner.token);
      await page.getByText('Nothing waits for confirmation.').waitFor();
      expect(await page.getByText(/^No connection since/).count()).toBe(0);
      await other.close();
      expect(refused()).toBeGreaterThan(0);
      expect(refused()).toBeLessThanOrEqual(MOST_REFUSED);
      await close();
    });
  });
});

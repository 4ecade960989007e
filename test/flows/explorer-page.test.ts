import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, overflowsHorizontally } from '../support/console-page.ts';
import { startService, type TestService } from '../support/service.ts';

type Owner = Awaited<ReturnType<TestService['owner']>>;

describe.runIf(hasChromium())('GraphiQL, in a browser', () => {
  let at: TestService;
  let browser: Browser;
  /** The same for all tests, because a new one compiles the editor again. */
  let page: Page;

  beforeAll(async () => {
    at = await startService();
    browser = await connectBrowser();
    page = await browser.newPage({ viewport: { width: 1_200, height: 900 } });
    page.setDefaultTimeout(inject('pollMs'));
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  /** Opens the page without the state of another test. Fails with the browser's errors, such as a refused script. */
  async function look(work: () => Promise<void>): Promise<void> {
    const complaints: string[] = [];
    page.on('console', (message) => void (message.type() === 'error' && complaints.push(message.text())));
    page.on('pageerror', (error) => void complaints.push(error.message));
    try {
      await page.goto(`${at.url}/graphql`);
      await execute(page).waitFor();
      // The button is there before the editor: a click in between runs nothing.
      await page.locator('.graphiql-query-editor .CodeMirror').waitFor();
      await work();
    } finally {
      page.removeAllListeners();
      // From another page of this origin, because the editor stores its state while it is open.
      await page.goto(`${at.url}/health`);
      await page.evaluate('localStorage.clear(); sessionStorage.clear();');
      await page.context().clearCookies();
    }
    // GraphiQL logs the list of errors of a refused subscription.
    expect(complaints.filter((text) => text !== 'Array(1)')).toEqual([]);
  }

  const execute = (page: Page) => page.getByRole('button', { name: /Execute query/ });
  const stop = (page: Page) => page.getByRole('button', { name: /Stop query/ });
  const response = (page: Page) => page.getByRole('region', { name: 'Result Window' });

  /** Replaces the text of an editor. */
  async function setText(page: Page, editor: string, text: string): Promise<void> {
    await page.locator(`${editor} .CodeMirror`).waitFor();
    await page.evaluate(`document.querySelector('${editor} .CodeMirror').CodeMirror.setValue(${JSON.stringify(text)})`);
  }
  const write = (page: Page, query: string) => setText(page, '.graphiql-query-editor', query);

  /** Runs the query until its result has `text`: while GraphiQL still loads, a click may run nothing. */
  const expectResponse = (page: Page, text: string) =>
    expect
      .poll(
        async () => {
          if (await execute(page).isVisible()) await execute(page).click();
          return response(page).textContent();
        },
        { interval: 200 },
      )
      .toContain(text);

  /** Subscribes and creates plans until an event has `text`; the subscription is still open afterwards. */
  async function expectPlanEvents(page: Page, owner: Owner, subscription: string, text: string): Promise<void> {
    await write(page, subscription);
    await execute(page).click();
    await stop(page).waitFor();
    const { body } = await owner.post('/v1/device/register', { device_type: 'smart_light', home_id: owner.homeId });
    await expect
      .poll(
        async () => {
          await owner.post('/v1/plans', { steps: [{ id: 'on', device_id: body.device_id, action: 'turn_on' }] });
          return response(page).textContent();
        },
        { interval: 100 },
      )
      .toContain(text);
  }

  it('has no violations of WCAG 2.2 A and AA that axe finds, the accent of the console in both themes, and fits small screens', () =>
    look(async () => {
      for (const [colorScheme, colour] of [
        ['light', 'rgb(11, 106, 103)'],
        ['dark', 'rgb(83, 213, 196)'],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await accessibility(page)).toEqual([]);
        const button = `document.querySelector('.graphiql-execute-button')`;
        expect(await page.evaluate(`getComputedStyle(${button}).backgroundColor`)).toBe(colour);
      }
      await page.emulateMedia({ colorScheme: null });
      await page.getByRole('navigation', { name: 'API reference' }).getByText('Twinkeep').waitFor();
      expect(await page.getByRole('link', { name: 'Console' }).getAttribute('href')).toBe('/console');
      const { width: large = 0, height = 0 } = page.viewportSize() ?? {};
      for (const width of [400, 360, 320]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await overflowsHorizontally(page)).toBe(false);
        // The response is below the editor.
        const [editor, answer] = await Promise.all(
          ['.graphiql-editors', '.graphiql-response'].map((part) => page.locator(part).boundingBox()),
        );
        if (!editor || !answer) throw new Error('the editor and the response are not shown');
        expect(answer.y).toBeGreaterThanOrEqual(editor.y + editor.height);
        expect(Math.min(editor.width, answer.width)).toBeGreaterThan(width - 150);
      }
      await page.setViewportSize({ width: large, height });
    }));

  it('runs queries and subscriptions with a token, and shows the schema', async () => {
    const owner = await at.owner();
    await look(async () => {
      await page.getByLabel('Token or API key').fill(owner.token);
      await expectResponse(page, '"totalCount"');

      await expectPlanEvents(page, owner, 'subscription { planChanged { planId status } }', '"status": "RUNNING"');
      await stop(page).click();
      await execute(page).waitFor();

      await write(page, 'subscription { nothing }');
      await execute(page).click();
      await response(page)
        .getByText(/Cannot query field/)
        .waitFor();

      await page.getByRole('button', { name: 'Show Documentation Explorer' }).click();
      await page.getByRole('link', { name: 'Mutation', exact: true }).click();
      await page.getByRole('link', { name: 'commandDevice', exact: true }).waitFor();
    });
  });

  it('runs mutations and subscriptions with the session of the browser', async () => {
    const owner = await at.owner();
    await look(async () => {
      const opened = await page.request.post(`${at.url}/v1/auth/session`, { data: { token: owner.token } });
      expect(opened.status()).toBe(204);
      await expectResponse(page, '"totalCount"');
      await write(page, 'mutation { createHome(input: { homeName: "Lake house" }) { ... on Created { status } } }');
      await execute(page).click();
      await response(page).getByText('"status"').waitFor();
      expect((await owner.get('/v1/homes')).body.homes).toHaveLength(2);

      await expectPlanEvents(page, owner, 'subscription { planChanged { planId } }', '"planId"');
    });
  });

  it('sends the credential of the headers editor', async () => {
    const owner = await at.owner();
    await look(async () => {
      await page.getByRole('button', { name: 'Headers' }).click();
      const headers = JSON.stringify({ Authorization: `Bearer ${owner.token}` });
      await setText(page, '.graphiql-editor-tool .graphiql-editor:not(.hidden)', headers);
      await expectResponse(page, '"totalCount"');
    });
  });
});

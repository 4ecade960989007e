import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readCounters } from '../../console/src/home/counters.ts';
import type { SimulatedDevice } from '../../src/device/homes/simulated-device.ts';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { eventually } from '../support/clock.ts';
import {
  accessibility,
  layoutProblems,
  openConsolePage,
  saveScreenshot,
  startConsoleService,
} from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';
import { type SimulatedHome, startSimulatedHome } from '../support/simulated-home.ts';

const broken: SimulatedDevice = {
  ...{ name: 'Old lamp', deviceType: 'smart_light', firmware: '1.0.0', state: { on: false }, tick: () => null },
  commands: {
    turn_on() {
      throw new Error('the bulb is gone');
    },
  },
};

describe.runIf(hasChromium())('the overview in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let home: SimulatedHome;
  let browser: Browser;

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    home = await startSimulatedHome(at, owner);
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await home?.stop();
    await at?.stop();
  });

  const command = (device: string, action: string, params = {}) =>
    owner.post(`/v1/device/${device}/command`, { action, params });

  it('shows the tenant, its devices and commands live, and what needs attention, also on a small screen', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('');
    await page.getByText('5 of 5').waitFor();
    await page.getByText('Nothing needs attention.').waitFor();
    await page.getByRole('heading', { level: 1, name: 'Tenant of ada' }).waitFor();
    const tiles = page.getByRole('region', { name: 'Devices', exact: true });
    const light = tiles.getByRole('listitem').filter({ hasText: 'Ceiling light' });
    await light.getByText(/^(on|off), brightness \d+\s%$/).waitFor();
    await tiles.getByRole('listitem').filter({ hasText: 'Front door' }).getByText('locked', { exact: false }).waitFor();
    await tiles
      .getByText(/^temperature [\d.]+\s°C/)
      .first()
      .waitFor();
    await command(home.idOf('set_brightness'), 'set_brightness', { level: 40 });
    await command(home.idOf('unlock'), 'unlock');
    await command(home.idOf('set_brightness'), 'set_brightness', { level: 70 });
    await command(home.idOf('set_brightness'), 'turn_off');
    const { device } = (await owner.get(`/v1/devices/${home.idOf('unlock')}`)).body;
    await page.getByRole('link', { name: `Waiting for confirmation: unlock · ${device.name}` }).waitFor();
    await page.getByText(/^3 succeeded$/).waitFor();
    expect(await page.getByText('Entire service').count()).toBe(0);
    await saveScreenshot(page, 'home');
    await home.unplug(home.idOf('set_temperature'));
    await page.getByText('4 of 5').waitFor();
    expect(await layoutProblems(page)).toEqual([]);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByRole('link', { name: 'Actors' }).waitFor();
    expect(await page.getByRole('link', { name: 'API', exact: true }).getAttribute('href')).toBe('/docs');
    expect(await page.getByRole('link', { name: 'GraphQL', exact: true }).getAttribute('href')).toBe('/graphql');
    expect(await accessibility(page)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows a viewer the same numbers, and requests nothing that a viewer may not see', async () => {
    const viewer = await inviteMember(at, owner, 'viewer');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: viewer.token });
    await open('');
    await page.getByText(/ of 5/).waitFor();
    await page.getByText('Updates periodically').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('does not count a revoked device', async () => {
    const other = await at.owner();
    await register(other, { device_type: 'smart_light', name: 'Lamp' });
    const lost = await register(other, { device_type: 'smart_light', name: 'Lost lamp' });
    expect((await other.get('/v1/overview')).body.devices).toEqual({ total: 2, online: 0 });
    expect((await other.post(`/v1/device/${lost.device_id}/revoke`, {})).status).toBe(200);
    expect((await other.get('/v1/overview')).body.devices).toEqual({ total: 1, online: 0 });
    const { page, open, close } = await openConsolePage(browser, at, { token: other.token });
    await open('');
    await page.getByText('0 of 1').waitFor();
    await page.getByText('1 offline').waitFor();
    await close();
  });

  it('loads less than 400 KB, without the layout library', async () => {
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token, fresh: true });
    const session = await page.context().newCDPSession(page);
    await session.send('Network.enable');
    const names = new Map<string, string>();
    let bytes = 0;
    session.on('Network.responseReceived', ({ requestId, response }) => names.set(requestId, response.url));
    session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      if (names.get(requestId)?.includes('/console')) bytes += encodedDataLength;
    });
    await open('');
    await page.getByText(/ of 5/).waitFor();
    await page.waitForLoadState('networkidle');
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(400_000);
    const files = [...names.values()];
    // The name of the file, without the hash of its content.
    expect(files.filter((url) => /\/(?:elk|layout)[^/]*$/.test(url))).toEqual([]);
    expect(page.workers()).toEqual([]);
    await open(`/actors/device/${home.idOf('unlock')}`);
    await page.getByRole('img', { name: 'link: now online' }).waitFor();
    expect(page.workers().map((worker) => worker.url())).toEqual([
      expect.stringContaining('/console/assets/elk-worker'),
    ]);
    await close();
  });

  it('names the person of what waits, and hides a dismissed failure until the next one', async () => {
    const id = await home.add(broken);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: owner.token, fresh: true },
    });
    await page.clock.install();
    const waiting: string[] = [];
    while (waiting.length < 4) waiting.push((await command(home.idOf('unlock'), 'unlock')).body.command_id);
    await command(id, 'turn_on');
    await open('');
    const list = page.getByRole('region', { name: 'Needs attention' });
    await list.getByText('Requested by you').first().waitFor();
    await list.getByRole('link', { name: 'Show all that waits for confirmation' }).waitFor();
    expect(await list.getByText('Requested by you').count()).toBe(3);
    const failure = list.getByRole('listitem').filter({ hasText: 'Failed commands: Old lamp' });
    await failure.getByText('1 command failed or timed out in the last hour.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await failure.getByRole('button', { name: 'Dismiss: Failed commands: Old lamp' }).click();
    await failure.waitFor({ state: 'detached' });
    const failed = Promise.withResolvers<void>();
    page.on('websocket', (socket) =>
      socket.on('framereceived', ({ payload }) => `${payload}`.includes('"failed"') && failed.resolve()),
    );
    await page.reload();
    await list.getByText('Requested by you').first().waitFor();
    expect(await failure.count()).toBe(0);
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    // Earlier than the next poll.
    await page.clock.pauseAt(Date.now() + 2_000);
    await command(id, 'turn_on');
    await failed.promise;
    const read = page.waitForRequest(`**/v1/device/${id}/commands?*`);
    await page.clock.runFor(1_500);
    await read;
    await page.clock.resume();
    await failure.getByText('2 commands failed or timed out in the last hour.').waitFor();
    for (const one of waiting) await owner.post(`/v1/commands/${one}/cancel`, {});
    await page.getByRole('link', { name: 'Show as a list' }).click();
    await page.getByRole('heading', { level: 1, name: 'Devices' }).waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('shows the rates of the service to platform operators only, with a gap while the metrics cannot be read', async () => {
    const token = await at.token('root', { email: 'root@example.com', scope: 'platform:admin' });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token, expects: [503], fresh: true },
    });
    await page.clock.install();
    await open('');
    await page.getByRole('heading', { name: 'Entire service' }).waitFor();
    await page.getByRole('heading', { name: 'Messages per second', exact: true }).waitFor();
    /** Takes samples, one after the other, until the chart has this description. */
    const sampleUntil = async (name: RegExp) => {
      const chart = page.getByRole('img', { name });
      await eventually(async () => {
        const sampled = page.waitForResponse('**/metrics');
        await page.clock.fastForward(2_000);
        await sampled;
        return (await chart.count()) > 0;
      });
      return chart;
    };
    const chart = await sampleUntil(
      /^Messages per second: from \d\d:\d\d to \d\d:\d\d; now [\d.]+; lowest [\d.]+; highest [\d.]+/,
    );
    await chart.locator('canvas').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.route('**/metrics', (route) => route.fulfill({ status: 503 }));
    await sampleUntil(/^Messages per second: .*; now unknown; .*; no values for \d+ s$/);
    await page.unroute('**/metrics');
    await sampleUntil(/^Messages per second: .*; now [\d.]+; .*; no values for \d+ s$/);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('has the current time on the axis of a chart that has no values yet', async () => {
    const token = await at.token('root', { email: 'root@example.com', scope: 'platform:admin' });
    const { page, open, close } = await openConsolePage(browser, at, { token, fresh: true });
    // The chart is a canvas, so its labels are recorded where they are drawn.
    await page.addInitScript(`
      const drawn = (globalThis.drawn = []);
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
        drawn.push(text);
        return fillText.call(this, text, ...at);
      };`);
    await page.clock.install({ time: new Date('2026-03-01T12:30:30Z') });
    await page.route('**/metrics', (route) => route.fulfill({ body: '' }));
    await open('');
    await page
      .getByRole('img', { name: 'Messages per second: no values yet', exact: true })
      .locator('canvas')
      .waitFor();
    const times = async () => ((await page.evaluate('drawn')) as string[]).filter((text) => /^\d\d:\d\d$/.test(text));
    await eventually(async () => (await times()).length > 0);
    expect(new Set(await times())).toContain('13:30');
    await close();
  });
});

describe('the counters of the service', () => {
  it('are summed over their labels', () => {
    const text = [
      '# TYPE twinkeep_mqtt_messages_total counter',
      'twinkeep_mqtt_messages_total{channel="state"} 12',
      'twinkeep_mqtt_messages_total{channel="hello"} 3',
      'twinkeep_turn_duration_seconds_bucket{le="1"} 9',
      'twinkeep_turn_duration_seconds_count 9',
      '',
    ].join('\n');
    expect(readCounters(text)).toEqual({ messages: 15, turns: 9, refusals: 0 });
  });
});

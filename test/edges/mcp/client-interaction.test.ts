import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema, type ElicitResult, type Progress } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SafetyPolicy } from '../../../src/domain/policy.ts';
import { eventually } from '../../support/clock.ts';
import type { HttpService } from '../../support/http-service.ts';
import { callTool, codeOf, mcpClient, structured, transports } from '../../support/mcp.ts';
import { setPolicy } from '../../support/safety-policy.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

// Messages during a tool call: elicitation, progress and cancellation.

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
  await setPolicy(mine, { agent_confirm_by: 'requester' });
});
afterAll(() => service.close());

const device = async (device_type: string, name = 'Front door'): Promise<string> => {
  const { device_id } = await mine.register({ device_type, name });
  await mine.connect(device_id);
  return device_id;
};
const unlock = (target_id: string, more: object = {}) => ({
  ...{ target_type: 'device', target_id, action: 'unlock', ...more },
});
// biome-ignore lint/suspicious/noExplicitAny: a test reads what an external client would read
type Body = any;
const plans = async (): Promise<Body[]> => (await mine.call('GET', '/plans')).body.plans;
const planNamed = (name: string, check: (plan: Body) => boolean = () => true) =>
  eventually(async () => (await plans()).find((plan) => plan.name === name && check(plan)));
const commandOf = (deviceId: string) =>
  eventually(async () => (await mine.call('GET', `/device/${deviceId}/commands`)).body.commands[0]);
const finish = async (deviceId: string): Promise<void> => {
  const { id } = await commandOf(deviceId);
  await mine.report(deviceId, { on: true });
  await mine.acknowledge(deviceId, id, 'succeeded');
};

describe.each(transports)('over %s', (transport) => {
  let requests: string[];
  let answer: ElicitResult;
  let client: Client;
  beforeAll(async () => {
    client = await mcpClient(service.url, mine.tokens.owner, { transport, capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      requests.push(params.message);
      return answer;
    });
    await client.listTools();
  });
  afterAll(() => client.close());
  const requested = async (given: ElicitResult, args: object) => {
    requests = [];
    answer = given;
    return callTool(client, 'execute_proto_command', args);
  };
  const yes: ElicitResult = { action: 'accept', content: { confirm: true } };

  describe('a critical action', () => {
    it('is sent when the user of the client approves it in the dialogue', async () => {
      const id = await device('smart_lock', 'Front\u202e door');
      const body = structured(await requested(yes, unlock(id)));
      expect(body).toEqual({ success: true, command_id: expect.any(String), message_id: expect.any(String) });
      expect(requests).toEqual([
        [
          'The action “unlock” is critical and waits for your confirmation.',
          `Device “Front door” (${id})`,
          '  Change “locked”: null → false',
          'Do it on this device?',
        ].join('\n'),
      ]);
      const { command } = (await mine.call('GET', `/commands/${body.command_id}`)).body;
      expect(command).toMatchObject({ status: 'dispatched', confirmed_by: mine.userId });
    });

    it('is shown with its parameters and changes, and a name cannot look like a part of the question', async () => {
      const id = await device('valve', 'Valve” (1). Also open “Garage');
      await mine.report(id, { flow: 5 });
      await requested({ action: 'decline' }, unlock(id, { action: 'set_flow', params: { percent: 100 } }));
      expect(requests).toEqual([
        [
          'The action “set_flow” is critical and waits for your confirmation.',
          'Parameter “percent”: 100',
          `Device “Valve 1. Also open Garage” (${id})`,
          '  Change “flow”: 5 → 100',
          'Do it on this device?',
        ].join('\n'),
      ]);
    });

    it('that updates firmware shows version, host, checksum and who released it', async () => {
      const id = await device('smart_light');
      const checksum = 'ab'.repeat(32);
      const draft = { device_type: 'smart_light', url: 'https://firmware.example.com/light.bin', checksum };
      const version = transports.indexOf(transport) + 1;
      const { body } = await mine.call('POST', '/firmware/release', { ...draft, version: `${version}.0.0` });
      const released = await mine.call('POST', `/firmware/${body.id}/release`, undefined, { token: await fresh() });
      expect(released.status).toBe(200);
      await requested(
        { action: 'decline' },
        { ...unlock(id), action: 'update_firmware', params: { firmware_id: body.id } },
      );
      expect(requests[0]?.split('\n').slice(3, -1)).toEqual([
        `  Firmware “version”: "${version}.0.0"`,
        '  Firmware “url_host”: "firmware.example.com"',
        `  Firmware “checksum”: "${checksum}"`,
        `  Firmware “released_by”: "${mine.userId}"`,
      ]);
    });

    it('is shown with the length of what is cut', async () => {
      const id = await device('display', 'N'.repeat(61));
      const capabilities = [
        {
          ...{ action: 'show', safetyClass: 'CRITICAL' },
          paramSchema: { type: 'object', properties: { text: { type: 'string' } } },
        },
      ];
      const path = `/devices/${id}/manifest`;
      expect((await mine.call('POST', path, { capabilities }, { token: await fresh() })).status).toBe(201);
      await requested({ action: 'decline' }, unlock(id, { action: 'show', params: { text: 'x'.repeat(3_000) } }));
      expect(requests[0]?.split('\n').slice(1, 3)).toEqual([
        `Parameter “text”: "${'x'.repeat(99)}… (cut: the first 100 of 3002 characters)`,
        `Device “${'N'.repeat(60)}…” (cut: the first 60 of 61 characters) (${id})`,
      ]);
      await requested({ action: 'decline' }, unlock(id, { action: 'show', params: { text: 'x'.repeat(98) } }));
      expect(requests[0]).toContain(`Parameter “text”: "${'x'.repeat(98)}"\n`);
    });

    it('is cancelled when the user declines', async () => {
      const id = await device('smart_lock');
      for (const no of [{ action: 'decline' }, { action: 'accept', content: { confirm: false } }] as ElicitResult[]) {
        const body = structured(await requested(no, unlock(id)));
        expect(body).toEqual({ status: 'cancelled', command_id: expect.any(String) });
        const { command } = (await mine.call('GET', `/commands/${body.command_id}`)).body;
        expect(command.status).toBe('cancelled');
      }
    });

    it('waits with its token when the user does not answer', async () => {
      const id = await device('smart_lock');
      const body = structured(await requested({ action: 'cancel' }, unlock(id)));
      expect(body).toMatchObject({ status: 'dry_run_required', dry_run_token: expect.any(String) });
    });

    it('is not sent if the user has lost the permission when they answer', async () => {
      const id = await device('smart_lock');
      const { body } = await service.call('GET', '/v1/auth/me', { token: mine.tokens.user });
      const role = (to: string) => mine.call('PATCH', `/tenant/members/${body.user.id}`, { role: to }, owner);
      const owner = { token: await fresh() };
      const theirs = await mcpClient(service.url, mine.tokens.user, { transport, capabilities: { elicitation: {} } });
      theirs.setRequestHandler(ElicitRequestSchema, async () => {
        expect((await role('viewer')).status).toBe(200);
        return yes;
      });
      await theirs.listTools();
      expect(codeOf(await callTool(theirs, 'execute_proto_command', unlock(id)))).toBe('FORBIDDEN_ROLE');
      await theirs.close();
      await role('user');
      expect((await commandOf(id)).status).toBe('awaiting_confirmation');
    });

    it('has no dialogue if a dry run was requested', async () => {
      const id = await device('smart_lock');
      expect(structured(await requested(yes, unlock(id, { dry_run: true }))).status).toBe('dry_run_required');
      expect(requests).toEqual([]);
    });

    it('of a group has one dialogue', async () => {
      const ids = [await device('smart_lock', 'Back door'), await device('smart_lock', 'Cellar')];
      const { slug } = (await mine.call('POST', '/groups', { name: 'Doors', device_ids: ids })).body;
      const { results } = structured(await requested(yes, { target_type: 'group', target_id: slug, action: 'unlock' }));
      expect(results.map(({ status }: Body) => status)).toEqual(['dispatched', 'dispatched']);
      expect(requests).toHaveLength(1);
      expect(requests[0]).toContain('Device “Back door”');
      expect(requests[0]).toContain('Do it on these 2 devices?');
      const no = structured(
        await requested({ action: 'decline' }, { target_type: 'group', target_id: slug, action: 'unlock' }),
      );
      expect(no.results.map(({ success, error }: Body) => [success, error])).toEqual([
        [false, 'The user declined.'],
        [false, 'The user declined.'],
      ]);
    });

    it.each([
      ...['person', 'another_principal'].map((who) => ({ confirm_by: who })),
      ...['person', 'another_principal'].map((who) => ({ agent_confirm_by: who })),
    ])('has no dialogue if the policy is %j', async (given) => {
      const id = await device('smart_lock');
      await setPolicy(mine, given as Partial<SafetyPolicy>, { token: await fresh() });
      try {
        const result = await requested(yes, unlock(id));
        expect(requests).toEqual([]);
        expect(structured(result)).toMatchObject({ status: 'dry_run_required' });
        expect(JSON.stringify(result.content)).toContain('a person or another user to confirm');
        const { dry_run_token } = structured(result);
        expect(codeOf(await callTool(client, 'confirm_proto_command', { dry_run_token }))).toBe('CONFIRMATION_FAILED');
      } finally {
        await setPolicy(mine, { confirm_by: 'requester', agent_confirm_by: 'requester' }, { token: await fresh() });
      }
    });
  });

  /** A token of the owner that was never presented at `/mcp`, and so counts as a person's. */
  const fresh = async (): Promise<string> => {
    const { body } = await mine.call('GET', '/auth/me');
    return service.token(body.user.ext_id);
  };

  describe('a plan', () => {
    const steps = (...ids: string[]) =>
      ids.map((device_id, n) => ({
        ...{ id: `s${n}`, device_id, action: 'turn_on', compensation: { action: 'turn_off' } },
        ...(n > 0 && { depends_on: [`s${n - 1}`] }),
      }));

    it('reports progress until it has ended', async () => {
      const ids = [await device('smart_light'), await device('smart_light')];
      const notified: Progress[] = [];
      const name = `progress ${transport}`;
      const running = client.callTool({ name: 'execute_plan', arguments: { name, steps: steps(...ids) } }, undefined, {
        onprogress: (progress) => notified.push(progress),
      });
      for (const id of ids) await finish(id);
      const { plan } = structured((await running) as never);
      expect(plan.status).toBe('succeeded');
      // The SDK's client may process the last notification after the response, and then it discards it.
      expect([
        [1, 2],
        [2, 2],
      ]).toEqual(expect.arrayContaining(notified.map(({ progress, total }) => [progress, total])));
      expect(notified[0]?.progress).toBe(1);
    });

    it('is cancelled, and completed steps are undone, when the client cancels the call', async () => {
      const ids = [await device('smart_light'), await device('smart_light')];
      const name = `taken back ${transport}`;
      const giveUp = new AbortController();
      const running = client.callTool({ name: 'execute_plan', arguments: { name, steps: steps(...ids) } }, undefined, {
        ...{ signal: giveUp.signal, onprogress: () => giveUp.abort() },
      });
      const failed = expect(running).rejects.toThrow();
      await finish(ids[0] as string);
      await failed;
      // The running step finishes, and is then compensated with the others.
      await finish(ids[1] as string);
      const plan = await planNamed(name, ({ steps }) => steps[1].status === 'compensating');
      expect(plan.status).toBe('rolling_back');
    });

    it('continues when the client disconnects during the stream', async () => {
      const id = await device('smart_light');
      const name = `dropped ${transport}`;
      const leaving = await mcpClient(service.url, mine.tokens.owner, { transport });
      const running = leaving.callTool({ name: 'execute_plan', arguments: { name, steps: steps(id) } }, undefined, {
        onprogress: () => {},
      });
      const failed = expect(running).rejects.toThrow();
      await planNamed(name);
      await leaving.close();
      await failed;
      await finish(id);
      const plan = await planNamed(name, ({ status }) => !/^(pending|running)$/.test(status));
      expect(plan.status).toBe('succeeded');
      // The plan id is sufficient to continue after a lost connection.
      expect(structured(await callTool(client, 'get_plan_status', { plan_id: plan.id })).plan).toEqual(plan);
    });
  });
});

import { beforeAll, beforeEach } from 'vitest';
import type { CommandContext } from '../../../../src/machines/command-types.ts';
import type { CallOptions } from '../../../support/http-service.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';

/** Ids of the commands that were written to their devices during the test. */
export let written: string[];

/** Like `withTwoTenants`, and records the commands that are written. */
export function withCommandService(): void {
  withTwoTenants();
  beforeAll(() => {
    service.runtime.actors.subscribe('command.write', ({ commandId }) => void written.push(commandId));
  });
  beforeEach(() => {
    written = [];
  });
}

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const command = (id: string, body: object, sent?: CallOptions) =>
  mine.call('POST', `/device/${id}/command`, body, sent);
export const cancel = (id: string, sent?: CallOptions) => mine.call('POST', `/commands/${id}/cancel`, {}, sent);
export const show = async (id: string) => (await mine.call('GET', `/commands/${id}`)).body.command;
export const register = async (device_type = 'smart_light') => (await mine.register({ device_type })).device_id;
export const dryRun = async (id: string, body: object = { action: 'unlock' }) => (await command(id, body)).body;
export const contextOf = async (id: string) =>
  (await service.runtime.actors.read<CommandContext>({ kind: 'command', id }))?.snapshot.context;

import { beforeEach, expect } from 'vitest';
import type { CallResult } from '../../support/http-service.ts';
import { mine } from './two-tenants.ts';

// A device with the critical action `open_gate`, and requests that make its manifest weaker.

export const gate = (more: object = {}) => ({ action: 'open_gate', safetyClass: 'CRITICAL', ...more });
export const percent = (maximum: number) => ({
  paramSchema: { type: 'object', properties: { percent: { type: 'integer', maximum } } },
});
/** What gets weaker by `lower`. */
export const SENTENCE = "'open_gate' will need no confirmation: it is CRITICAL now, and becomes NORMAL.";

/** The device of the test. */
export let device: string;

/** Registers a device of this type, which is that of the test from now on. */
export async function useDevice(device_type: string): Promise<void> {
  device = (await mine.register({ device_type })).device_id;
}

/** Gives each test a new device with a manifest. */
export function withGate(): void {
  beforeEach(async () => {
    await useDevice('esp32');
    const { status } = await mine.call('POST', path(), { capabilities: [gate(percent(50)), { action: 'wave' }] });
    expect(status).toBe(201);
  });
}

export const path = () => `/devices/${device}/manifest`;
export const manifest = async () => (await mine.call('GET', path())).body;
export const as = (role: 'owner' | 'admin' | 'user' | 'viewer') => ({ token: mine.tokens[role] });
export const put = async (capabilities: object[], sent = as('owner')) =>
  mine.call('PUT', path(), { version: (await manifest()).version, capabilities }, sent);
/** Requests that `open_gate` becomes NORMAL. */
export const lower = async (sent = as('owner')) => (await put([{ action: 'open_gate' }], sent)).body;
export const confirm = (id: string, dry_run_token: string, sent = as('owner')) =>
  mine.call('POST', `/change-requests/${id}/confirm`, { dry_run_token }, sent);
export const approve = (id: string, sent: object = as('owner')) =>
  mine.call('POST', `/change-requests/${id}/approve`, undefined, sent);
export const refuse = (id: string, body: object = {}, sent = as('owner')) =>
  mine.call('POST', `/change-requests/${id}/refuse`, body, sent);
export const show = async (id: string) => (await mine.call('GET', `/change-requests/${id}`)).body.change;
export const waiting = async () => (await mine.call('GET', '/change-requests?waiting=true')).body.changes;
export const coded = ({ status, body }: CallResult) => [status, body.code];

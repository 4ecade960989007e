import type { Packet } from 'mqtt-packet';
import type { SimulatedTenant } from '../workload/simulated-tenant.ts';

interface CommandMessage {
  message_type: string;
  device_id: string;
  payload: { command_id: string; action: string; expires_at: number };
}

/**
 * Checks each command that a process sends to its device; `clockErrorMs` is the clock of the process minus the true
 * time.
 */
export function checkWrites(service: SimulatedTenant, packet: Packet, clockErrorMs: number): void {
  if (packet.cmd !== 'publish') return;
  const message = JSON.parse(packet.payload.toString()) as CommandMessage;
  if (message.message_type === 'cmd') checkCommand(service, clockErrorMs, message);
}

function checkCommand(
  service: SimulatedTenant,
  clockErrorMs: number,
  { device_id: deviceId, payload }: CommandMessage,
): void {
  const { world, ledger, cluster } = service;
  const { command_id: id, action, expires_at } = payload;
  const times = (ledger.writes.get(id) ?? 0) + 1;
  ledger.writes.set(id, times);
  world.note('wire', `${action} ${id.slice(-6)} to ${deviceId.slice(-4)}`);
  const row = cluster.database.tables.actors.get(`command:${id}`);
  if (row === undefined) {
    world.fail('only-committed-commands-are-sent', `command ${id} is written and not stored`);
    return;
  }
  if (row.columns.critical === true && times > 1) {
    world.fail('critical-commands-are-sent-once', `critical command ${id} was written ${times} times`);
  }
  if (ledger.shut.has(deviceId)) world.fail('no-commands-to-revoked-devices', `command ${id} to ${deviceId}`);
  if ((ledger.requestedAt.get(id) ?? 0) < (ledger.shutAt.get(deviceId) ?? 0)) {
    world.fail('revocation-cancels-commands', `command ${id} is older than the revocation of ${deviceId}`);
  }
  if (service.suspended === 'yes') world.fail('no-commands-while-suspended', `command ${id} to ${deviceId}`);
  if (expires_at <= world.now() + clockErrorMs)
    world.fail('expired-commands-are-not-sent', `command ${id} to ${deviceId}`);
}

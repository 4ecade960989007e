import { readPackets } from '../network/packets.ts';
import type { Household } from '../workload/household.ts';

interface CommandMessage {
  message_type: string;
  device_id: string;
  payload: { command_id: string; action: string; issued_at: number; expires_at: number };
}

/** Looks at each command as it leaves a process for its device. */
export function checkWrites(house: Household, frame: Buffer): void {
  for (const packet of readPackets(frame)) {
    if (packet.type !== 'publish') continue;
    const message = JSON.parse(packet.payload.toString()) as CommandMessage;
    if (message.message_type === 'cmd') checkCommand(house, message);
  }
}

function checkCommand(house: Household, { device_id: deviceId, payload }: CommandMessage): void {
  const { world, ledger, cluster } = house;
  const { command_id: id, action, issued_at, expires_at } = payload;
  const times = (ledger.writes.get(id) ?? 0) + 1;
  ledger.writes.set(id, times);
  world.note('wire', `${action} ${id.slice(-6)} to ${deviceId.slice(-4)}`);
  const row = cluster.database.tables.actors.get(`command:${id}`);
  if (row === undefined) {
    world.fail('nothing-uncommitted-leaves', `command ${id} is written and not stored`);
    return;
  }
  if (row.columns.critical === true && times > 1) {
    world.fail('critical-is-written-once', `critical command ${id} was written ${times} times`);
  }
  if (ledger.shut.has(deviceId)) world.fail('nothing-to-revoked-devices', `command ${id} to ${deviceId}`);
  if (issued_at < (ledger.shutAt.get(deviceId) ?? 0)) {
    world.fail('revocation-closes-commands', `command ${id} is older than the revocation of ${deviceId}`);
  }
  if (house.suspended === 'yes') world.fail('nothing-while-suspended', `command ${id} to ${deviceId}`);
  if (expires_at <= world.now()) world.fail('nothing-after-its-expiry', `command ${id} to ${deviceId}`);
}

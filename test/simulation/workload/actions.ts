import type { JsonObject } from '../../../src/domain/values.ts';
import type { CmdPayload } from '../../../src/protocol/payloads.ts';
import type { Random } from '../world/random.ts';
import type { Device } from './device.ts';

/** The acknowledgements of a device for a command, each after a delay. */
export function carryOut(
  device: Pick<Device, 'firmware'>,
  { action, params }: CmdPayload,
  random: Random,
): { afterMs: number; ack: JsonObject }[] {
  const answers: { afterMs: number; ack: JsonObject }[] = [];
  let afterMs = random.float(1_500);
  if (random.chance(0.3)) answers.push({ afterMs, ack: { status: 'accepted' } });
  afterMs += random.float(1_500);
  if (random.chance(0.9)) {
    if (action === 'update_firmware') device.firmware = String(params.version ?? device.firmware);
    const state = stateAfter(action, params);
    const reportsState = state !== null && random.chance(0.7);
    answers.push({ afterMs, ack: { status: 'succeeded', ...(reportsState && { state }) } });
  } else answers.push({ afterMs, ack: { status: 'failed', error: 'stuck' } });
  return answers;
}

function stateAfter(action: string, params: JsonObject): JsonObject | null {
  switch (action) {
    case 'set_brightness':
      return { brightness: params.level ?? null };
    case 'turn_on':
      return { on: true };
    case 'turn_off':
      return { on: false };
    case 'unlock':
      return { locked: false };
    case 'lock':
      return { locked: true };
    default:
      return null;
  }
}

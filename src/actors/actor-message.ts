import { type EpochMs, SYSTEM } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { ActorMessage } from '../machines/outputs.ts';

/** Converts a message between actors to the event that the receiver decides. */
export const toMachineEvent = (event: ActorMessage, at: EpochMs): MachineEvent => ({
  ...event,
  at,
  by:
    event.type === 'ack.received' || event.type === 'state.observed' ? { kind: 'device', id: event.deviceId } : SYSTEM,
});

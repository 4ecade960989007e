import { hash } from 'node:crypto';

/** Sequence numbers that the window covers, including the highest accepted one (contract §4, like DTLS). */
export const WINDOW_SIZE = 64;
const SLOT_BYTES = 8;
const WINDOW_BYTES = WINDOW_SIZE * SLOT_BYTES;
const UNUSED = '\0'.repeat(SLOT_BYTES);
/**
 * Bytes kept beyond the window before they are cut off, because concatenating strings is cheaper than slicing. V8 keeps
 * each concatenation as a separate object until then: more slack would cost an idle device, whose heartbeats are not
 * committed, much more memory without saving time.
 */
const SLACK_BYTES = 8 * SLOT_BYTES;

/**
 * Sliding replay window: the sequence numbers that a device has used, and by which message. `slots` has 8 bytes per
 * number, highest first: the first 8 bytes of the SHA-256 of the `message_id`, or zeros for an unused number. It is
 * only as long as the used part of the window, plus at most `SLACK_BYTES` that are not read. It is a binary string (one
 * character per byte): strings are immutable, and at this length faster to create than byte arrays.
 */
export interface ReplayWindow {
  /** The highest accepted number; 0 before the first message, so the first number is 1. */
  readonly highest: number;
  readonly slots: string;
}

/**
 * `fresh`: accept the message. `repeat`: the same message again; acknowledge and ignore it. `reused`: another message
 * with a used number. `too_old`: below the window, or below 1.
 */
export type SequenceVerdict = 'fresh' | 'repeat' | 'reused' | 'too_old';

export function emptyWindow(): ReplayWindow {
  return { highest: 0, slots: '' };
}

export function judgeSequence(window: ReplayWindow, sequence: number, messageId: string): SequenceVerdict {
  if (sequence > window.highest) return 'fresh';
  const age = window.highest - sequence;
  if (sequence < 1 || age >= WINDOW_SIZE) return 'too_old';
  const at = age * SLOT_BYTES;
  const slot = window.slots.slice(at, at + SLOT_BYTES);
  if (slot === '' || slot === UNUSED) return 'fresh';
  return slot === slotOf(messageId) ? 'repeat' : 'reused';
}

/** The window after a `fresh` number is accepted. The previous window is unchanged. */
export function acceptSequence(window: ReplayWindow, sequence: number, messageId: string): ReplayWindow {
  const { highest, slots } = window;
  const newSlot = slotOf(messageId);
  const rise = sequence - highest;
  if (rise === 1 && slots.length < WINDOW_BYTES + SLACK_BYTES) return { highest: sequence, slots: newSlot + slots };
  if (rise > 0) {
    const rest = slots.slice(0, Math.max(0, WINDOW_BYTES - rise * SLOT_BYTES));
    return { highest: sequence, slots: rest === '' ? newSlot : newSlot + UNUSED.repeat(rise - 1) + rest };
  }
  const at = -rise * SLOT_BYTES;
  return { highest, slots: slots.slice(0, at).padEnd(at, UNUSED) + newSlot + slots.slice(at + SLOT_BYTES) };
}

/** Whether an unused number below the highest would still be accepted. */
export function hasUnused({ highest, slots }: ReplayWindow): boolean {
  const covered = Math.min(WINDOW_SIZE, highest);
  if (slots.length < covered * SLOT_BYTES) return true;
  for (let at = 0; at < covered * SLOT_BYTES; at += SLOT_BYTES) {
    if (slots.startsWith(UNUSED, at)) return true;
  }
  return false;
}

/** The stored form of the window: `slots` in base64. */
export interface StoredWindow {
  highest: number;
  slots: string;
}

export function windowToJson(window: ReplayWindow): StoredWindow {
  const slots = window.slots.slice(0, WINDOW_BYTES);
  return { highest: window.highest, slots: Buffer.from(slots, 'latin1').toString('base64') };
}

/** Reads the output of `windowToJson`. Throws on anything else: a guessed window would accept replays. */
export function windowFromJson(stored: StoredWindow): ReplayWindow {
  const slots = Buffer.from(stored.slots, 'base64').toString('latin1');
  const valid =
    Number.isSafeInteger(stored.highest) &&
    stored.highest >= 0 &&
    slots.length % SLOT_BYTES === 0 &&
    slots.length / SLOT_BYTES <= Math.min(WINDOW_SIZE, stored.highest);
  if (!valid) throw new RangeError('stored replay window is not valid');
  return { highest: stored.highest, slots };
}

function slotOf(messageId: string): string {
  return hash('sha256', messageId, 'binary').slice(0, SLOT_BYTES);
}

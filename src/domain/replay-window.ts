import { hash } from 'node:crypto';

/** Sequence numbers the window covers, the highest accepted one included (contract §4, as DTLS does). */
export const WINDOW_SIZE = 64;
const SLOT_BYTES = 8;
const WINDOW_BYTES = WINDOW_SIZE * SLOT_BYTES;
const UNUSED = '\0'.repeat(SLOT_BYTES);
/**
 * What is kept past the window before it is cut off: a text is joined for less than it is cut. Each join is an object of its own until
 * then: with more of them an idle device, whose heartbeats commit nothing, takes much more memory for no less time.
 */
const SLACK_BYTES = 8 * SLOT_BYTES;

/**
 * Which sequence numbers of a device were used, and by which message.
 * `slots` holds 8 bytes a number, the highest first and no longer than the window's used part needs, but for some that have
 * left it and are not read: the first 8 bytes of SHA-256 of its `message_id`, or zeros where the number is unused. It is a
 * text of one character a byte: texts never change in place, and one of this length is made in less time than an array of bytes.
 */
export interface ReplayWindow {
  /** The highest accepted number; 0 before the first, so that the first to use is 1. */
  readonly highest: number;
  readonly slots: string;
}

/**
 * `fresh`: accept it. `repeat`: the same message again, to be acknowledged and ignored. `reused`: another message
 * under a used number. `too_old`: below the window, or below 1.
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
  return slot === markOf(messageId) ? 'repeat' : 'reused';
}

/** The window after a number that was judged `fresh`. The one before stays as it was. */
export function acceptSequence(window: ReplayWindow, sequence: number, messageId: string): ReplayWindow {
  const { highest, slots } = window;
  const mark = markOf(messageId);
  const rise = sequence - highest;
  if (rise === 1 && slots.length < WINDOW_BYTES + SLACK_BYTES) return { highest: sequence, slots: mark + slots };
  if (rise > 0) {
    const kept = slots.slice(0, Math.max(0, WINDOW_BYTES - rise * SLOT_BYTES));
    return { highest: sequence, slots: kept === '' ? mark : mark + UNUSED.repeat(rise - 1) + kept };
  }
  const at = -rise * SLOT_BYTES;
  return { highest, slots: slots.slice(0, at).padEnd(at, UNUSED) + mark + slots.slice(at + SLOT_BYTES) };
}

/** Whether a number below the highest would still be accepted. */
export function hasUnused({ highest, slots }: ReplayWindow): boolean {
  const covered = Math.min(WINDOW_SIZE, highest);
  if (slots.length < covered * SLOT_BYTES) return true;
  for (let at = 0; at < covered * SLOT_BYTES; at += SLOT_BYTES) {
    if (slots.startsWith(UNUSED, at)) return true;
  }
  return false;
}

/** The window as it is stored: `slots` in base64. */
export interface StoredWindow {
  highest: number;
  slots: string;
}

export function windowToJson(window: ReplayWindow): StoredWindow {
  const slots = window.slots.slice(0, WINDOW_BYTES);
  return { highest: window.highest, slots: Buffer.from(slots, 'latin1').toString('base64') };
}

/** Reads what `windowToJson` wrote. Throws on anything else: a window that is guessed would let a replay through. */
export function windowFromJson(stored: StoredWindow): ReplayWindow {
  const slots = Buffer.from(stored.slots, 'base64').toString('latin1');
  const valid =
    Number.isSafeInteger(stored.highest) &&
    stored.highest >= 0 &&
    slots.length % SLOT_BYTES === 0 &&
    slots.length / SLOT_BYTES <= Math.min(WINDOW_SIZE, stored.highest);
  if (!valid) throw new RangeError('not a stored replay window');
  return { highest: stored.highest, slots };
}

function markOf(messageId: string): string {
  return hash('sha256', messageId, 'binary').slice(0, SLOT_BYTES);
}

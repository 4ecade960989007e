import { hash } from 'node:crypto';

/** Sequence numbers the window covers, the highest accepted one included (contract §4, as DTLS does). */
export const WINDOW_SIZE = 64;
const SLOT_BYTES = 8;

/**
 * Which sequence numbers of a device were used, and by which message. Never changed in place.
 * `slots` holds 8 bytes a number, the highest first and no longer than the window's used part needs: the first 8 bytes of
 * SHA-256 of its `message_id`, or zeros where the number is unused.
 */
export interface ReplayWindow {
  /** The highest accepted number; 0 before the first, so that the first to use is 1. */
  readonly highest: number;
  readonly slots: Uint8Array;
}

/**
 * `fresh`: accept it. `repeat`: the same message again, to be acknowledged and ignored. `reused`: another message
 * under a used number. `too_old`: below the window, or below 1.
 */
export type SequenceVerdict = 'fresh' | 'repeat' | 'reused' | 'too_old';

const NO_SLOTS = new Uint8Array(0);

export function emptyWindow(): ReplayWindow {
  return { highest: 0, slots: NO_SLOTS };
}

export function judgeSequence(window: ReplayWindow, sequence: number, messageId: string): SequenceVerdict {
  if (sequence > window.highest) return 'fresh';
  const age = window.highest - sequence;
  if (sequence < 1 || age >= WINDOW_SIZE) return 'too_old';
  const at = age * SLOT_BYTES;
  if (isUnused(window.slots, at)) return 'fresh';
  const mark = markOf(messageId);
  for (let i = 0; i < SLOT_BYTES; i++) if (window.slots[at + i] !== mark[i]) return 'reused';
  return 'repeat';
}

/** The window after a number that was judged `fresh`. The one before stays as it was. */
export function acceptSequence(window: ReplayWindow, sequence: number, messageId: string): ReplayWindow {
  const mark = markOf(messageId);
  const age = window.highest - sequence;
  if (age < 0) {
    const rise = -age * SLOT_BYTES;
    const kept = Math.min(window.slots.length, Math.max(0, WINDOW_SIZE * SLOT_BYTES - rise));
    const slots = new Uint8Array(kept === 0 ? SLOT_BYTES : rise + kept);
    slots.set(mark);
    if (kept > 0) slots.set(kept === window.slots.length ? window.slots : window.slots.subarray(0, kept), rise);
    return { highest: sequence, slots };
  }
  const at = age * SLOT_BYTES;
  const slots = new Uint8Array(Math.max(window.slots.length, at + SLOT_BYTES));
  slots.set(window.slots);
  slots.set(mark, at);
  return { highest: window.highest, slots };
}

/** The window as it is stored: `slots` in base64. */
export interface StoredWindow {
  highest: number;
  slots: string;
}

export function windowToJson(window: ReplayWindow): StoredWindow {
  const { buffer, byteOffset, byteLength } = window.slots;
  return { highest: window.highest, slots: Buffer.from(buffer, byteOffset, byteLength).toString('base64') };
}

/** Reads what `windowToJson` wrote. Throws on anything else: a window that is guessed would let a replay through. */
export function windowFromJson(stored: StoredWindow): ReplayWindow {
  const slots = Uint8Array.from(Buffer.from(stored.slots, 'base64'));
  const valid =
    Number.isSafeInteger(stored.highest) &&
    stored.highest >= 0 &&
    slots.length % SLOT_BYTES === 0 &&
    slots.length / SLOT_BYTES <= Math.min(WINDOW_SIZE, stored.highest);
  if (!valid) throw new RangeError('not a stored replay window');
  return { highest: stored.highest, slots };
}

function markOf(messageId: string): Uint8Array {
  return hash('sha256', messageId, 'buffer').subarray(0, SLOT_BYTES);
}

function isUnused(slots: Uint8Array, at: number): boolean {
  for (let i = at; i < at + SLOT_BYTES; i++) if (slots[i] !== 0 && slots[i] !== undefined) return false;
  return true;
}

import type { EpochMs, JsonObject, Milliseconds } from '../../domain/values.ts';
import type { SimulatedDevice, SimulationEnvironment } from './simulated-device.ts';

// Simulates the past of a device: what it would have reported before it was registered.

/** A report of the past. */
export interface PastReport {
  at: EpochMs;
  state: JsonObject;
}

interface PastOptions {
  from: EpochMs;
  /** Exclusive. */
  to: EpochMs;
  random: () => number;
  /** The device at a moved clock. */
  create(world: SimulationEnvironment): SimulatedDevice;
}

const STEP_MS: Milliseconds = 300_000;
const HOUR_MS: Milliseconds = 3_600_000;

/** What people do in a home at an hour of the day, in UTC, with the minutes that it varies by. */
interface Habit {
  hour: number;
  action: string;
  params?: JsonObject;
  variesByM: number;
}

/** By the action that a device must have. */
const habits: readonly Habit[] = [
  { hour: 6.5, action: 'set_temperature', params: { celsius: 21 }, variesByM: 10 },
  { hour: 6.7, action: 'turn_on', variesByM: 15 },
  { hour: 7, action: 'open', variesByM: 10 },
  { hour: 7.4, action: 'turn_off', variesByM: 10 },
  { hour: 7.6, action: 'unlock', variesByM: 10 },
  { hour: 7.9, action: 'lock', variesByM: 5 },
  { hour: 17, action: 'unlock', variesByM: 40 },
  { hour: 17.8, action: 'turn_on', variesByM: 20 },
  { hour: 18, action: 'lock', variesByM: 10 },
  { hour: 19, action: 'close', variesByM: 20 },
  { hour: 20.5, action: 'set_brightness', params: { level: 45 }, variesByM: 30 },
  { hour: 22.3, action: 'set_temperature', params: { celsius: 18 }, variesByM: 15 },
  { hour: 22.6, action: 'turn_off', variesByM: 30 },
];

/** A thermostat stays on. */
const isHabitOf = ({ commands }: SimulatedDevice, { action }: Habit): boolean =>
  Object.hasOwn(commands, action) && !(action.startsWith('turn_') && Object.hasOwn(commands, 'set_temperature'));

/** The reports of a device between two times, in their order: measured values, and the effects of habits. */
export async function simulatePast({ from, to, random, create }: PastOptions): Promise<PastReport[]> {
  let now = from;
  const device = create({
    clock: { now: () => now },
    // Without random uses: the habits are the uses.
    random: () => 0.35 + 0.3 * random(),
    pause: async () => {},
    fetchFirmware: () => Promise.reject(new Error('no firmware in the past')),
  });
  const reports: PastReport[] = [{ at: from, state: structuredClone(device.state) }];
  const due = habitsBetween(device, from, to, random);
  let last = from;
  while (now < to) {
    const next = due[0]?.at ?? to;
    now = Math.min(now + STEP_MS, next);
    if (now >= to) break;
    const changed = device.tick((now - last) / 1_000) ?? {};
    last = now;
    const state = now === next ? { ...changed, ...(await act(device, due.shift()?.habit)) } : changed;
    if (Object.keys(state).length > 0) reports.push({ at: now, state: structuredClone(state) });
  }
  return reports;
}

/** The state at the end of the past. */
export const stateAfter = (past: readonly PastReport[]): JsonObject =>
  Object.assign({}, ...past.map(({ state }) => state));

function habitsBetween(device: SimulatedDevice, from: EpochMs, to: EpochMs, random: () => number) {
  const own = habits.filter((habit) => isHabitOf(device, habit));
  const due: { at: EpochMs; habit: Habit }[] = [];
  for (let day = Math.floor(from / (24 * HOUR_MS)) * 24 * HOUR_MS; day < to; day += 24 * HOUR_MS) {
    for (const habit of own) {
      const at = Math.round(day + habit.hour * HOUR_MS + (random() - 0.5) * habit.variesByM * 60_000);
      if (at > from && at < to) due.push({ at, habit });
    }
  }
  return due.sort((one, other) => one.at - other.at);
}

async function act({ commands, state }: SimulatedDevice, habit: Habit | undefined): Promise<JsonObject> {
  const handler = habit && commands[habit.action];
  if (handler === undefined) return {};
  const before = structuredClone(state);
  const { signal } = new AbortController();
  await handler(habit?.params ?? {}, { commandId: '', action: habit?.action ?? '', signal, progress: () => {} });
  const changed = Object.entries(state).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  );
  return Object.fromEntries(changed);
}

import { type Act, type Device, MAX_STEPS, type Memory, type Step, titleOf } from '../model.ts';
import { same } from '../schema.ts';
import { isDone, undoOf } from '../undo.ts';
import type { Instruction, Wish } from './instructions.ts';
import { type Preferences, preferencesOf } from './memories.ts';
import { find, findBeside } from './targets.ts';
import { actsFor } from './wishes.ts';
import { slugOf } from './words.ts';

// Instructions become steps: which devices, in which order, and what undoes them.

export interface Graph {
  /** Those that are not there yet. */
  steps: readonly Step[];
  /** Devices that were meant and are not connected. */
  leftOut: readonly Device[];
}

export type Drawn = Graph | { impossible: string; code: 'NO_SUCH_DEVICE' | 'NOT_POSSIBLE' | 'TOO_MANY_STEPS' };

/** `there` are the steps that the context has already: none of them is wished a second time. */
export function draw(
  instructions: readonly Instruction[],
  { devices, memories }: { devices: readonly Device[]; memories: readonly Memory[] },
  there: readonly Step[],
): Drawn {
  const drawing = makeDrawing(there);
  const preferences = preferencesOf(memories, devices);
  const leftOut = new Set<Device>();
  for (const instruction of instructions) {
    if (instruction.afterwards) drawing.nextStage();
    const able = ableTo(instruction, devices, preferences);
    if ('impossible' in able) {
      if (instruction.lenient) continue;
      return able;
    }
    // A command for a device that is away would wait for it, and hold up all the rest.
    const online = able.filter(({ device }) => device.online);
    const chosen = online.length > 0 ? online : able;
    for (const { device } of able) if (!device.online && online.length > 0) leftOut.add(device);
    for (const { device, acts } of chosen) drawing.add(device, acts);
    // What comes to far more is not drawn to its end.
    if (there.length + drawing.steps().length > MAX_STEPS) {
      return { impossible: `That takes more than the ${MAX_STEPS} steps of a plan.`, code: 'TOO_MANY_STEPS' };
    }
  }
  return { steps: drawing.steps(), leftOut: [...leftOut] };
}

type Able = readonly { device: Device; acts: readonly Act[] }[];

function ableTo(
  instruction: Instruction,
  devices: readonly Device[],
  preferences: Preferences,
): Able | Extract<Drawn, { impossible: string }> {
  const { wish, target, beside, except } = instruction;
  const alone = (device: Device) => actsFor(wish, device, { preferences, meant: [device], broad: false }) !== null;
  const found = findBeside(target, beside, devices, alone);
  if (found === null) return noSuchDevice(target);
  const spared = new Set<Device>();
  for (const words of except) {
    const left = find(words, devices);
    // Nobody wants done to everything what was not to be done to one.
    if (left === null) return noSuchDevice(words);
    for (const device of left.devices) spared.add(device);
  }
  const be = 'be' in wish && (wish.be === 'on' || wish.be === 'off') ? wish.be : null;
  const meant = found.devices.filter(
    (device) => !spared.has(device) && (found.named || be === null || !preferences.spares(be, device)),
  );
  const able = meant.flatMap((device) => {
    const acts = actsFor(wish, device, { preferences, meant, broad: found.broad });
    return acts === null ? [] : [{ device, acts }];
  });
  if (able.length > 0) return able;
  const where = target === '' ? 'here' : `called "${shown(target)}"`;
  return { impossible: `Nothing ${where} can be ${participle(wish)}.`, code: 'NOT_POSSIBLE' };
}

const noSuchDevice = (words: string) =>
  ({ impossible: `Nothing here is called "${shown(words)}".`, code: 'NO_SUCH_DEVICE' }) as const;

/** What somebody wrote, as far as an error repeats it. */
export const shown = (text: string): string => (text.length > 80 ? `${text.slice(0, 79)}…` : text);

function participle(wish: Wish): string {
  if ('be' in wish) return wish.be === 'on' || wish.be === 'off' ? `turned ${wish.be}` : wish.be;
  if ('run' in wish) return { start: 'started', stop: 'stopped', pause: 'paused', resume: 'resumed' }[wish.run];
  if ('celsius' in wish) return `set to ${wish.celsius} °C`;
  if ('kelvin' in wish) return `set to ${wish.kelvin} K`;
  if ('percent' in wish) return `set to ${wish.percent} %`;
  if ('amount' in wish) return `set to ${wish.amount}`;
  if ('more' in wish)
    return { warm: 'made warmer', cool: 'made cooler', bright: 'made brighter', dark: 'made darker' }[wish.more];
  return 'mode' in wish ? `set to "${shown(wish.mode)}"` : `made ${wish.quality}`;
}

/** Steps on one device follow each other; a stage waits for all before it; the rest runs side by side. */
function makeDrawing(there: readonly Step[]) {
  const steps: Step[] = [];
  const lastOf = new Map<Device, string>();
  const ids = new Set(there.map(({ id }) => id));
  let before: readonly string[] = [];
  let stage: string[] = [];
  const free = (wanted: string): string => {
    let id = wanted;
    for (let n = 2; ids.has(id); n++) id = `${wanted}-${n}`;
    ids.add(id);
    return id;
  };
  const taken = new Set<Step>();
  /** Parameters that were reckoned from a state are others by now. */
  const knownAs = (device: Device, act: Act): Step | undefined => {
    const alike = there.filter(({ deviceId, action }) => deviceId === device.id && action === act.action);
    const found = alike.find(({ params }) => same(params, act.params)) ?? alike.find((step) => !taken.has(step));
    if (found !== undefined) taken.add(found);
    return found;
  };
  const follow = (device: Device, id: string) => {
    stage = [...stage.filter((other) => other !== lastOf.get(device)), id];
    lastOf.set(device, id);
  };
  return {
    nextStage() {
      if (stage.length === 0) return;
      before = stage;
      stage = [];
    },
    add(device: Device, acts: readonly Act[]) {
      for (const act of acts) {
        const known = knownAs(device, act);
        if (known !== undefined) {
          follow(device, known.id);
          continue;
        }
        const previous = lastOf.get(device);
        if (previous === undefined && isDone(device, act)) continue;
        const last = steps.find(({ id }) => id === previous);
        if (last !== undefined && last.action === act.action && same(last.params, act.params)) continue;
        const id = free(`${slugOf(titleOf(device))}-${slugOf(act.action)}`.slice(0, 60));
        const dependsOn = previous !== undefined && stage.includes(previous) ? [previous] : before;
        steps.push({ ...act, id, deviceId: device.id, dependsOn, compensation: undoOf(device, act) });
        follow(device, id);
      }
    },
    steps: (): readonly Step[] => steps,
  };
}

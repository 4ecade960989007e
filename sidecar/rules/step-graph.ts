import { compensationFor, isAlreadyDone } from '../compensation.ts';
import { deepEqual } from '../json-schema.ts';
import { type ActionCall, type Device, displayNameOf, MAX_STEPS, type Memory, type Step } from '../planner-types.ts';
import { actionsFor } from './device-actions.ts';
import type { Effect, Instruction } from './instruction-parser.ts';
import { type Preferences, preferencesOf } from './memories.ts';
import { findTargets, findTargetsInList } from './targets.ts';
import { slugOf } from './text-normalizer.ts';

// Instructions become steps: which devices, in which order, and what undoes them.

export interface Graph {
  /** Those that are not there yet. */
  steps: readonly Step[];
  /** Devices that were meant and are not connected. */
  leftOut: readonly Device[];
}

export type GraphResult = Graph | { impossible: string; code: 'NO_SUCH_DEVICE' | 'NOT_POSSIBLE' | 'TOO_MANY_STEPS' };

/** `there` are the steps that the context has already: none of them is wished a second time. */
export function buildGraph(
  instructions: readonly Instruction[],
  { devices, memories }: { devices: readonly Device[]; memories: readonly Memory[] },
  there: readonly Step[],
): GraphResult {
  const drawing = makeGraphBuilder(there);
  const preferences = preferencesOf(memories, devices);
  const leftOut = new Set<Device>();
  for (const instruction of instructions) {
    if (instruction.afterwards) drawing.nextStage();
    const able = resolveActions(instruction, devices, preferences);
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

type DeviceActions = readonly { device: Device; acts: readonly ActionCall[] }[];

function resolveActions(
  instruction: Instruction,
  devices: readonly Device[],
  preferences: Preferences,
): DeviceActions | Extract<GraphResult, { impossible: string }> {
  const { effect, target, beside, except } = instruction;
  const alone = (device: Device) =>
    actionsFor(effect, device, { preferences, targets: [device], isEverything: false }) !== null;
  const found = findTargetsInList(target, beside, devices, alone);
  if (found === null) return noSuchDevice(target);
  const spared = new Set<Device>();
  for (const words of except) {
    const left = findTargets(words, devices);
    // Nobody wants done to everything what was not to be done to one.
    if (left === null) return noSuchDevice(words);
    for (const device of left.devices) spared.add(device);
  }
  const be = 'be' in effect && (effect.be === 'on' || effect.be === 'off') ? effect.be : null;
  const meant = found.devices.filter(
    (device) => !spared.has(device) && (found.named || be === null || !preferences.isExcluded(be, device)),
  );
  const able = meant.flatMap((device) => {
    const acts = actionsFor(effect, device, { preferences, targets: meant, isEverything: found.broad });
    return acts === null ? [] : [{ device, acts }];
  });
  if (able.length > 0) return able;
  const where = target === '' ? 'here' : `called "${truncateName(target)}"`;
  return { impossible: `Nothing ${where} can be ${participle(effect)}.`, code: 'NOT_POSSIBLE' };
}

const noSuchDevice = (words: string) =>
  ({ impossible: `Nothing here is called "${truncateName(words)}".`, code: 'NO_SUCH_DEVICE' }) as const;

/** What somebody wrote, as far as an error repeats it. */
export const truncateName = (text: string): string => (text.length > 80 ? `${text.slice(0, 79)}…` : text);

function participle(effect: Effect): string {
  if ('be' in effect) return effect.be === 'on' || effect.be === 'off' ? `turned ${effect.be}` : effect.be;
  if ('run' in effect) return { start: 'started', stop: 'stopped', pause: 'paused', resume: 'resumed' }[effect.run];
  if ('celsius' in effect) return `set to ${effect.celsius} °C`;
  if ('kelvin' in effect) return `set to ${effect.kelvin} K`;
  if ('percent' in effect) return `set to ${effect.percent} %`;
  if ('amount' in effect) return `set to ${effect.amount}`;
  if ('more' in effect)
    return { warm: 'made warmer', cool: 'made cooler', bright: 'made brighter', dark: 'made darker' }[effect.more];
  return 'mode' in effect ? `set to "${truncateName(effect.mode)}"` : `made ${effect.quality}`;
}

/** Steps on one device follow each other; a stage waits for all before it; the rest runs side by side. */
function makeGraphBuilder(there: readonly Step[]) {
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
  const knownAs = (device: Device, act: ActionCall): Step | undefined => {
    const alike = there.filter(({ deviceId, action }) => deviceId === device.id && action === act.action);
    const found = alike.find(({ params }) => deepEqual(params, act.params)) ?? alike.find((step) => !taken.has(step));
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
    add(device: Device, acts: readonly ActionCall[]) {
      for (const act of acts) {
        const known = knownAs(device, act);
        if (known !== undefined) {
          follow(device, known.id);
          continue;
        }
        const previous = lastOf.get(device);
        if (previous === undefined && isAlreadyDone(device, act)) continue;
        const last = steps.find(({ id }) => id === previous);
        if (last !== undefined && last.action === act.action && deepEqual(last.params, act.params)) continue;
        const id = free(`${slugOf(displayNameOf(device))}-${slugOf(act.action)}`.slice(0, 60));
        const dependsOn = previous !== undefined && stage.includes(previous) ? [previous] : before;
        steps.push({ ...act, id, deviceId: device.id, dependsOn, compensation: compensationFor(device, act) });
        follow(device, id);
      }
    },
    steps: (): readonly Step[] => steps,
  };
}

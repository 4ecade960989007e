import { compensationFor, isAlreadyDone } from '../compensation.ts';
import { deepEqual } from '../json-schema.ts';
import {
  type ActionCall,
  displayNameOf,
  MAX_STEPS,
  type Memory,
  type NewStep,
  type PlannerDevice,
  type Step,
} from '../planner-types.ts';
import { deviceActionsFor } from './device-actions.ts';
import type { Effect, Instruction } from './instruction-parser.ts';
import { type Preferences, preferencesOf } from './memories.ts';
import { findTargets, findTargetsInList } from './targets.ts';
import { slugOf } from './text-normalizer.ts';

// Builds the steps of a plan from instructions: their devices, dependencies and compensations.

export interface Graph {
  /** Steps that the context does not have yet. */
  steps: readonly NewStep[];
  /** Targets that are skipped because they are offline. */
  leftOut: readonly PlannerDevice[];
}

export type GraphResult = Graph | { impossible: string; code: 'NO_SUCH_DEVICE' | 'NOT_POSSIBLE' | 'TOO_MANY_STEPS' };

/** `existing` are the steps that the context already has; they are not proposed again. */
export function buildGraph(
  instructions: readonly Instruction[],
  { devices: known, memories }: { devices: readonly PlannerDevice[]; memories: readonly Memory[] },
  existing: readonly Step[],
): GraphResult {
  const outdated = new Set(known.flatMap(({ id, stateOutdated }) => (stateOutdated ? id : [])));
  const builder = makeGraphBuilder(existing, outdated);
  // A step of this context must not make another step necessary: the state of its device counts as reported.
  const own = new Set(existing.map(({ deviceId }) => deviceId));
  const devices = known.map((device) => (own.has(device.id) ? { ...device, stateOutdated: false } : device));
  const preferences = preferencesOf(memories, devices);
  const leftOut = new Set<PlannerDevice>();
  for (const instruction of instructions) {
    if (instruction.waitsForPrevious) builder.nextStage();
    const resolved = resolveActions(instruction, devices, preferences);
    if ('impossible' in resolved) {
      if (instruction.optional) continue;
      return resolved;
    }
    // A command for an offline device would wait for it and block the rest of the plan.
    const online = resolved.filter(({ device }) => device.online);
    const chosen = online.length > 0 ? online : resolved;
    for (const { device } of resolved) if (!device.online && online.length > 0) leftOut.add(device);
    for (const { device, acts, memoryIds } of chosen) builder.add(device, acts, memoryIds);
    // Stops early: a larger graph is refused anyway.
    if (existing.length + builder.steps().length > MAX_STEPS) {
      return { impossible: `The goal needs more than ${MAX_STEPS} steps.`, code: 'TOO_MANY_STEPS' };
    }
  }
  return { steps: builder.steps(), leftOut: [...leftOut] };
}

type DeviceActions = readonly {
  device: PlannerDevice;
  acts: readonly ActionCall[];
  memoryIds: readonly string[];
}[];

function resolveActions(
  instruction: Instruction,
  devices: readonly PlannerDevice[],
  preferences: Preferences,
): DeviceActions | Extract<GraphResult, { impossible: string }> {
  const { effect, target, otherTargets, except } = instruction;
  const supportsEffect = (device: PlannerDevice) =>
    deviceActionsFor(effect, device, { preferences, targets: [device], isEverything: false }) !== null;
  const found = findTargetsInList(target, otherTargets, devices, supportsEffect);
  if (found === null) return noSuchDevice(target);
  const excluded = new Set<PlannerDevice>();
  for (const phrase of except) {
    const match = findTargets(phrase, devices);
    // An unknown exception is an error: otherwise the action would apply to the device that should be left out.
    if (match === null) return noSuchDevice(phrase);
    for (const device of match.devices) excluded.add(device);
  }
  const be = 'be' in effect && (effect.be === 'on' || effect.be === 'off') ? effect.be : null;
  // Preferences of devices that were only compared with the target shape nothing.
  preferences.takeUsed();
  const targets = found.devices.filter(
    (device) => !excluded.has(device) && (found.named || be === null || !preferences.isExcluded(be, device)),
  );
  const sharedIds = [...instruction.memoryIds, ...preferences.takeUsed()];
  const resolved = targets.flatMap((device) => {
    const acts = deviceActionsFor(effect, device, { preferences, targets, isEverything: found.broad });
    const memoryIds = [...new Set([...sharedIds, ...preferences.takeUsed()])];
    return acts === null ? [] : [{ device, acts, memoryIds }];
  });
  if (resolved.length > 0) return resolved;
  const named = target === '' ? '' : ` named "${truncateName(target)}"`;
  return { impossible: `No device${named} can be ${participle(effect)}.`, code: 'NOT_POSSIBLE' };
}

const noSuchDevice = (phrase: string) =>
  ({ impossible: `No device or room is named "${truncateName(phrase)}".`, code: 'NO_SUCH_DEVICE' }) as const;

/** User text, cut for an error message. */
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

/** Steps on one device run in sequence, a stage waits for the previous one, all other steps run in parallel. */
function makeGraphBuilder(existing: readonly Step[], outdated: ReadonlySet<string>) {
  const steps: NewStep[] = [];
  const lastOf = new Map<PlannerDevice, string>();
  const ids = new Set(existing.map(({ id }) => id));
  let previousStage: readonly string[] = [];
  let stage: string[] = [];
  const uniqueId = (preferred: string): string => {
    let id = preferred;
    for (let n = 2; ids.has(id); n++) id = `${preferred}-${n}`;
    ids.add(id);
    return id;
  };
  const matched = new Set<Step>();
  /** Also matches a step with other parameters: relative values were computed from a state that has changed since. */
  const findExisting = (device: PlannerDevice, act: ActionCall): Step | undefined => {
    const sameAction = existing.filter(({ deviceId, action }) => deviceId === device.id && action === act.action);
    const found =
      sameAction.find(({ params }) => deepEqual(params, act.params)) ?? sameAction.find((step) => !matched.has(step));
    if (found !== undefined) matched.add(found);
    return found;
  };
  const addToStage = (device: PlannerDevice, id: string) => {
    stage = [...stage.filter((other) => other !== lastOf.get(device)), id];
    lastOf.set(device, id);
  };
  return {
    nextStage() {
      if (stage.length === 0) return;
      previousStage = stage;
      stage = [];
    },
    add(device: PlannerDevice, acts: readonly ActionCall[], memoryIds: readonly string[]) {
      for (const act of acts) {
        const known = findExisting(device, act);
        if (known !== undefined) {
          addToStage(device, known.id);
          continue;
        }
        const previous = lastOf.get(device);
        if (previous === undefined && isAlreadyDone(device, act)) continue;
        const last = steps.find(({ id }) => id === previous);
        if (last !== undefined && last.action === act.action && deepEqual(last.params, act.params)) {
          steps[steps.indexOf(last)] = { ...last, memoryIds: [...new Set([...last.memoryIds, ...memoryIds])] };
          continue;
        }
        const id = uniqueId(`${slugOf(displayNameOf(device))}-${slugOf(act.action)}`.slice(0, 60));
        const dependsOn = previous !== undefined && stage.includes(previous) ? [previous] : previousStage;
        const compensation = compensationFor({ ...device, stateOutdated: outdated.has(device.id) }, act);
        steps.push({ ...act, id, deviceId: device.id, dependsOn, compensation, memoryIds });
        addToStage(device, id);
      }
    },
    steps: (): readonly NewStep[] => steps,
  };
}

import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { IconName } from '../ui/icons.tsx';
import type { Tone } from '../ui/tone.ts';

// Display names, icons and colours of actors and their states.

export const plural: Readonly<Record<ActorKind, string>> = {
  device: 'Devices',
  command: 'Commands',
  plan: 'Plans',
  tenant: 'Tenant',
};
/** In the order in which they are shown. */
export const kinds = Object.keys(plural) as ActorKind[];
export const iconOf = (kind: ActorKind): IconName => kind;

/** Splits `a.b,c.d` into its paths. */
export const pathsIn = (state: string): string[] => (state === '' ? [] : state.split(','));

export const leafOf = (path: string): string => path.slice(path.lastIndexOf('.') + 1);

/** Whether a state, or a state inside it, is entered. */
export const isEntered = (path: string, entered: readonly string[]): boolean =>
  path === '' || entered.some((one) => one === path || one.startsWith(`${path}.`));

const tones: Readonly<Record<Tone, readonly string[]>> = {
  good: ['online', 'active', 'one_key', 'succeeded', 'verified', 'running'],
  info: ['dispatched', 'acknowledged', 'in_progress', 'queued', 'submitted', 'pending', 'open', 'watching', 'waiting'],
  warn: [
    'two_keys',
    'awaiting_confirmation',
    'rolling_back',
    'stopping',
    'expired',
    'cancelled',
    'rolled_back',
    'suspended',
  ],
  bad: ['failed', 'rejected', 'timed_out', 'rollback_failed', 'mismatched', 'revoked', 'deleted'],
  quiet: [],
};

/** Tone of a state; unknown states are neutral. */
export function toneOf(path: string): Tone {
  const leaf = leafOf(path);
  return (Object.keys(tones) as Tone[]).find((tone) => tones[tone].includes(leaf)) ?? 'quiet';
}

export const idSuffix = (id: string): string => id.slice(-8);

export const actorHref = (kind: ActorKind, id: string): string => `/actors/${kind}/${id}`;

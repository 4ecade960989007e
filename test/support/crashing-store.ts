import type { ActorCommit, BatchCommit, CommandColumns, Store } from '../../src/store/contract.ts';

/** A turn that holds such a thing. */
export type BatchContent = 'report' | 'request' | 'critical write' | 'companions' | 'mark' | 'plan' | 'step';

/** A moment in the life of a turn: decided and not yet committed, or committed and not yet released. */
export interface CrashPoint {
  at: 'decided' | 'committed';
  /** The first turn that holds it, or, of a plan, the first after so many. */
  of: BatchContent;
  skip?: number;
}

const isCommand = (actor: ActorCommit): boolean => actor.ref.kind === 'command';

const holds: Record<BatchContent, (turn: BatchCommit) => boolean> = {
  report: (turn) => turn.actors.some(({ ref, readVersion }) => ref.kind === 'device' && readVersion > 0),
  request: (turn) => turn.actors.some((actor) => isCommand(actor) && actor.readVersion === 0),
  'critical write': (turn) =>
    turn.actors.some((actor) => {
      const { critical, written, status } = actor.columns as unknown as CommandColumns;
      return isCommand(actor) && critical && written && status === 'dispatched';
    }),
  /** One that tells another, and the other who was told. */
  companions: (turn) => turn.atomic === true,
  plan: (turn) => turn.actors.some(({ ref }) => ref.kind === 'plan'),
  /** The command that a plan asked for is made. */
  step: (turn) =>
    turn.actors.some((actor) => isCommand(actor) && actor.readVersion === 0 && actor.delivered.length > 0),
  /** What was released before is marked as delivered in this one. */
  mark: (turn) => turn.delivered.length > 0 || turn.actors.some(({ delivered }) => delivered.length > 0),
};

/** A store whose process dies, as by `kill -9`, in the moment that was asked for. */
export function crashingStore(): { arm(fault: CrashPoint): void; around(store: Store): Store } {
  let armed: CrashPoint | null = null;
  let left = 0;
  const dies = (at: CrashPoint['at'], turn: BatchCommit): boolean =>
    armed?.at === at && holds[armed.of](turn) && left-- === 0;
  const die = (): Promise<never> => {
    process.kill(process.pid, 'SIGKILL');
    return new Promise(() => {});
  };
  return {
    arm(fault) {
      armed = fault;
      left = fault.skip ?? 0;
    },
    around: (store) => ({
      ...store,
      actors: {
        ...store.actors,
        async commit(turn) {
          if (dies('decided', turn)) return die();
          const answer = await store.actors.commit(turn);
          return dies('committed', turn) ? die() : answer;
        },
      },
    }),
  };
}

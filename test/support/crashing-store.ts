import type { CommandColumns } from '../../src/machines/actor-columns.ts';
import type { ActorCommit, Store } from '../../src/store/contract.ts';
import { type CommittedBatch, toCommittedBatch } from './committed-batch.ts';

/** Contents of a batch that a crash can be bound to. */
type BatchContent = 'report' | 'request' | 'critical write' | 'sender and receiver' | 'mark' | 'plan' | 'step';

/** A point of a batch's life: decided and not yet committed, or committed and not yet published. */
export interface CrashPoint {
  at: 'decided' | 'committed';
  /** The first batch with this content, or the first compaction of reports; with `skip`, the first after so many. */
  of: BatchContent | 'compaction';
  skip?: number;
}

const isCommand = (actor: ActorCommit): boolean => actor.ref.kind === 'command';

const contains: Record<BatchContent, (batch: CommittedBatch) => boolean> = {
  report: (batch) => batch.actors.some(({ ref, readVersion }) => ref.kind === 'device' && readVersion > 0),
  request: (batch) => batch.actors.some((actor) => isCommand(actor) && actor.readVersion === 0),
  'critical write': (batch) =>
    batch.actors.some((actor) => {
      const { critical, written, status } = actor.columns as unknown as CommandColumns;
      return isCommand(actor) && critical && written && status === 'dispatched';
    }),
  /** A sender and the receiver of its message, committed atomically. */
  'sender and receiver': (batch) => batch.atomic,
  plan: (batch) => batch.actors.some(({ ref }) => ref.kind === 'plan'),
  /** The commit that creates a plan's command. */
  step: (batch) =>
    batch.actors.some((actor) => isCommand(actor) && actor.readVersion === 0 && actor.delivered.length > 0),
  /** Outputs published before are marked as delivered in this batch. */
  mark: (batch) => batch.delivered.length > 0 || batch.actors.some(({ delivered }) => delivered.length > 0),
};

/** A store whose process is killed, as by `kill -9`, at the armed crash point. */
export function crashingStore(): { arm(fault: CrashPoint): void; around(store: Store): Store } {
  let armed: CrashPoint | null = null;
  let remaining = 0;
  const isOf = (of: CrashPoint['of'], batch: CommittedBatch | 'compaction'): boolean =>
    of === 'compaction' || batch === 'compaction' ? of === batch : contains[of](batch);
  const dies = (at: CrashPoint['at'], batch: CommittedBatch | 'compaction'): boolean =>
    armed?.at === at && isOf(armed.of, batch) && remaining-- === 0;
  const die = (): Promise<never> => {
    process.kill(process.pid, 'SIGKILL');
    return new Promise(() => {});
  };
  return {
    arm(fault) {
      armed = fault;
      remaining = fault.skip ?? 0;
    },
    around: (store) => ({
      ...store,
      history: {
        ...store.history,
        async compact(compaction) {
          if (dies('decided', 'compaction')) return die();
          const isStored = await store.history.compact(compaction);
          return dies('committed', 'compaction') ? die() : isStored;
        },
      },
      actors: {
        ...store.actors,
        async commit(commits, options) {
          const batch = toCommittedBatch(commits, options);
          if (dies('decided', batch)) return die();
          const answer = await store.actors.commit(commits, options);
          return dies('committed', batch) ? die() : answer;
        },
      },
    }),
  };
}

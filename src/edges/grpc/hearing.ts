import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type CognitionProposal, NodeState } from '#proto/cognition/v1/runtime_pb.js';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type { Cognition } from '../../operations/cognition/contract.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Call } from './call.ts';
import type { SidecarLimits } from './limits.ts';
import { stateOf } from './showing.ts';
import type { Event } from './telling.ts';
import { type Named, named, readWord, type Word } from './words.ts';

export interface HearingParts {
  call: Pick<Call, 'pause' | 'resume'>;
  cognition: Pick<Cognition, 'context' | 'propose' | 'suspend' | 'complete' | 'fail'>;
  clock: Clock;
  lease: Pick<Lease, 'valid'>;
  limits: SidecarLimits;
  log: Log;
  say(event: Event): void;
  /** The context does not wait any more: the sidecar said so itself. */
  settled(contextId: Uuid): void;
  heard(kind: string): void;
  refused(code: string): void;
}

/**
 * What a sidecar says, done in its order for each context, and answered where it was refused. One that says more than it may
 * is not read for a while: nothing is dropped, and nothing piles up here.
 */
export class Hearing {
  private readonly parts: HearingParts;
  /** What is under way, by context. */
  private readonly tails = new Map<string, Promise<void>>();
  /** Nodes that are being proposed, with the proposal that the answer names. */
  private readonly proposing = new Map<string, string>();
  private inFlight = 0;
  private tokens: number;
  private filledAt = performance.now();
  private paused = false;
  private timer: NodeJS.Timeout | null = null;

  constructor(parts: HearingParts) {
    this.parts = parts;
    this.tokens = parts.limits.proposals.burst;
  }

  sizes(): CollectionSizes {
    return { sidecar_queues: this.tails.size, sidecar_proposals: this.proposing.size };
  }

  /** Reading a large one costs as much as reading many. */
  hear(proposal: CognitionProposal, bytes: number): void {
    this.tokens -= Math.max(1, bytes / this.parts.limits.proposals.bytes);
    this.inFlight += 1;
    const about = named(proposal);
    this.parts.heard(proposal.proposal.case ?? 'nothing');
    // Those about no context share one queue.
    const before = this.tails.get(about.contextId) ?? Promise.resolve();
    const turn = before.then(() => this.answer(proposal, about));
    this.tails.set(about.contextId, turn);
    void turn.then(() => {
      this.inFlight -= 1;
      if (this.tails.get(about.contextId) === turn) this.tails.delete(about.contextId);
      this.look();
    });
    this.look();
  }

  /** The proposal that a node came with, if that is not answered yet; asked once, by whoever tells of the node. */
  proposalOf(contextId: Uuid, nodeId: string): string {
    const key = `${contextId} ${nodeId}`;
    const proposalId = this.proposing.get(key) ?? '';
    this.proposing.delete(key);
    return proposalId;
  }

  private look(): void {
    const { limits, call } = this.parts;
    const { perSecond, burst } = limits.proposals;
    const now = performance.now();
    this.tokens = Math.min(burst, this.tokens + ((now - this.filledAt) / 1000) * perSecond);
    this.filledAt = now;
    const wait: Milliseconds = this.tokens >= 1 ? 0 : ((1 - this.tokens) / perSecond) * 1000;
    const full = wait > 0 || this.inFlight >= limits.inFlight;
    if (full && !this.paused) {
      this.paused = true;
      call.pause();
    } else if (!full && this.paused) {
      this.paused = false;
      call.resume();
    }
    if (wait > 0) {
      this.timer ??= setTimeout(() => {
        this.timer = null;
        this.look();
      }, Math.ceil(wait)).unref();
    }
  }

  private async answer(proposal: CognitionProposal, about: Named): Promise<void> {
    const { lease, log, refused } = this.parts;
    // It may have waited for an earlier one of its context.
    if (!lease.valid()) return;
    const outcome = await this.act(proposal, about).catch((thrown: unknown) => ({
      ok: false as const,
      refusal: refusalOf(thrown, log, { request_id: about.contextId, operation: 'a proposal' }),
    }));
    if (outcome.ok) return;
    refused(outcome.refusal.code);
    this.reject(about, outcome.refusal);
  }

  private async act(proposal: CognitionProposal, about: Named): Promise<Outcome<null>> {
    const { cognition, settled } = this.parts;
    const { contextId } = about;
    if (contextId === '') return refuse('NOT_FOUND', 'There is no such context.');
    const read = readWord(proposal);
    if (!read.ok) return read;
    const word = read.value;
    switch (word.type) {
      case 'graphNode':
        return this.propose(word, contextId, about);
      case 'suspend':
        return cognition.suspend(contextId, word);
      default: {
        const ended =
          word.type === 'complete' ? await cognition.complete(contextId, word) : await cognition.fail(contextId, word);
        if (ended.ok) settled(contextId);
        return ended;
      }
    }
  }

  private async propose(
    { node }: Extract<Word, { type: 'graphNode' }>,
    contextId: Uuid,
    { nodeId, proposalId }: Named,
  ): Promise<Outcome<null>> {
    const key = `${contextId} ${nodeId}`;
    this.proposing.set(key, proposalId);
    try {
      const outcome = await this.parts.cognition.propose(contextId, node);
      if (!outcome.ok) return outcome;
      if (this.proposing.has(key)) await this.accept(contextId, nodeId, proposalId);
      return done(null);
    } finally {
      this.proposing.delete(key);
    }
  }

  /** Nobody told of the node: it stood there already, or does not run before somebody accepts it. */
  private async accept(contextId: Uuid, nodeId: string, proposalId: string): Promise<void> {
    const { cognition, clock, say } = this.parts;
    const context = await cognition.context(contextId);
    const node = context?.nodes.find(({ id }) => id === nodeId);
    if (!context || !node) return;
    const to = stateOf(node, context.kind);
    const at = timestampFromMs(clock.now());
    const { commandId, error } = node;
    const why = { code: error?.code ?? '', detail: error?.detail ?? '' };
    say({
      case: 'graphStateUpdate',
      value: { contextId, nodeId, to, at, proposalId, commandId: commandId ?? '', ...why },
    });
  }

  private reject(about: Named, { code, detail }: Refusal): void {
    const at = timestampFromMs(this.parts.clock.now());
    this.parts.say({ case: 'graphStateUpdate', value: { ...about, to: NodeState.REJECTED, at, code, detail } });
  }
}

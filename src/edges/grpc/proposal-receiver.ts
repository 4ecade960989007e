import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type CognitionProposal, NodeState } from '#proto/cognition/v1/runtime_pb.js';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import { TokenBucket } from '../../domain/token-bucket.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Cognition } from '../../operations/cognition/contract.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { CallHandle } from './call.ts';
import type { OutgoingEvent } from './event-sender.ts';
import { nodeStateOfStep } from './perception.ts';
import { type ProposalBody, type ProposalRef, parseProposal, proposalRefOf } from './proposal-parser.ts';
import type { SidecarLimits } from './sidecar-limits.ts';

export interface ProposalReceiverParts {
  call: Pick<CallHandle, 'pause' | 'resume'>;
  cognition: Pick<Cognition, 'context' | 'propose' | 'suspend' | 'complete' | 'fail'>;
  clock: Clock;
  lease: Pick<Lease, 'valid'>;
  limits: SidecarLimits;
  log: Log;
  send(event: OutgoingEvent): void;
  /** The sidecar completed or failed the context. */
  onContextEnded(contextId: Uuid): void;
  onReceived(kind: string): void;
  onRefused(code: string): void;
}

/**
 * Proposal receiver: executes the proposals of each context in order and answers refused ones. A token bucket and a
 * limit on proposals in progress apply back-pressure: reading from the stream pauses, so that no proposal is dropped or
 * queued here.
 */
export class ProposalReceiver {
  readonly #parts: ProposalReceiverParts;
  /** The last proposal in progress of each context; the next one is chained to it. */
  readonly #tails = new Map<string, Promise<void>>();
  /** `<context id> <node id>` of each node in progress → the proposal id for the answer. */
  readonly #openProposals = new Map<string, string>();
  #inFlight = 0;
  readonly #bucket: TokenBucket;
  #paused = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(parts: ProposalReceiverParts) {
    this.#parts = parts;
    const { perSecond, burst } = parts.limits.proposalRate;
    const ticks = () => performance.now();
    this.#bucket = new TokenBucket({ perMs: perSecond / 1000, burst, maxDebt: Number.POSITIVE_INFINITY, ticks });
  }

  sizes(): CollectionSizes {
    return { sidecar_queues: this.#tails.size, sidecar_proposals: this.#openProposals.size };
  }

  /** A large proposal costs as many tokens as several small ones. */
  receive(proposal: CognitionProposal, bytes: number): void {
    this.#bucket.reserve(Math.max(1, bytes / this.#parts.limits.proposalRate.bytesPerToken));
    this.#inFlight += 1;
    const about = proposalRefOf(proposal);
    this.#parts.onReceived(proposal.proposal.case ?? 'nothing');
    // Proposals without a valid context id share one queue.
    const previous = this.#tails.get(about.contextId) ?? Promise.resolve();
    const current = previous.then(() => this.#process(proposal, about));
    this.#tails.set(about.contextId, current);
    void current.then(() => {
      this.#inFlight -= 1;
      if (this.#tails.get(about.contextId) === current) this.#tails.delete(about.contextId);
      this.#applyBackpressure();
    });
    this.#applyBackpressure();
  }

  /**
   * The proposal that created the node, if it is not answered yet. Consumed by the first node update that reports it.
   */
  takeProposalId(contextId: Uuid, nodeId: string): string {
    const key = `${contextId} ${nodeId}`;
    const proposalId = this.#openProposals.get(key) ?? '';
    this.#openProposals.delete(key);
    return proposalId;
  }

  #applyBackpressure(): void {
    const { limits, call } = this.#parts;
    const wait = this.#bucket.waitMs;
    const full = wait > 0 || this.#inFlight >= limits.maxInFlightProposals;
    if (full && !this.#paused) {
      this.#paused = true;
      call.pause();
    } else if (!full && this.#paused) {
      this.#paused = false;
      call.resume();
    }
    if (wait > 0) {
      this.#timer ??= setTimeout(() => {
        this.#timer = null;
        this.#applyBackpressure();
      }, wait).unref();
    }
  }

  async #process(proposal: CognitionProposal, about: ProposalRef): Promise<void> {
    const { lease, log, onRefused } = this.#parts;
    // The lease may have ended while the proposal waited for an earlier one of its context.
    if (!lease.valid()) return;
    const outcome = await this.#execute(proposal, about).catch((thrown: unknown) => ({
      ok: false as const,
      refusal: refusalOf(thrown, log, { request_id: about.contextId, operation: 'sidecar proposal' }),
    }));
    if (outcome.ok) return;
    onRefused(outcome.refusal.code);
    this.#reportRejected(about, outcome.refusal);
  }

  async #execute(proposal: CognitionProposal, about: ProposalRef): Promise<Outcome<null>> {
    const { cognition } = this.#parts;
    const { contextId } = about;
    if (contextId === '') return refuse('NOT_FOUND', 'Context not found.');
    const parsed = parseProposal(proposal);
    if (!parsed.ok) return parsed;
    const body = parsed.value;
    switch (body.type) {
      case 'graphNode':
        return this.#propose(body, contextId, about);
      case 'suspend':
        return cognition.suspend(contextId, body);
      case 'complete':
        return this.#end(contextId, cognition.complete(contextId, body));
      case 'error':
        return this.#end(contextId, cognition.fail(contextId, body));
    }
  }

  async #end(contextId: Uuid, ending: Promise<Outcome<null>>): Promise<Outcome<null>> {
    const ended = await ending;
    if (ended.ok) this.#parts.onContextEnded(contextId);
    return ended;
  }

  async #propose(
    { node, memoryIds }: Extract<ProposalBody, { type: 'graphNode' }>,
    contextId: Uuid,
    { nodeId, proposalId }: ProposalRef,
  ): Promise<Outcome<null>> {
    const key = `${contextId} ${nodeId}`;
    this.#openProposals.set(key, proposalId);
    try {
      const outcome = await this.#parts.cognition.propose(contextId, node, memoryIds);
      if (!outcome.ok) return outcome;
      if (this.#openProposals.has(key)) await this.#reportAccepted(contextId, nodeId, proposalId);
      return done(null);
    } finally {
      this.#openProposals.delete(key);
    }
  }

  /**
   * Answers a proposal that caused no node update: the node existed already, or it runs only after a user accepts it.
   */
  async #reportAccepted(contextId: Uuid, nodeId: string, proposalId: string): Promise<void> {
    const { cognition, clock, send } = this.#parts;
    const context = await cognition.context(contextId);
    const node = context?.nodes.find(({ id }) => id === nodeId);
    if (!context || !node) return;
    const to = nodeStateOfStep(node, context.kind);
    const at = timestampFromMs(clock.now());
    const { commandId, error } = node;
    const why = { code: error?.code ?? '', detail: error?.detail ?? '' };
    send({
      case: 'graphStateUpdate',
      value: { contextId, nodeId, to, at, proposalId, commandId: commandId ?? '', ...why },
    });
  }

  #reportRejected(about: ProposalRef, { code, detail }: Refusal): void {
    const at = timestampFromMs(this.#parts.clock.now());
    this.#parts.send({ case: 'graphStateUpdate', value: { ...about, to: NodeState.REJECTED, at, code, detail } });
  }
}

import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as after } from 'node:timers/promises';
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { parseTraceParent } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { LRUCache } from 'lru-cache';
import type { Actors, Committed, Reply, ReplyHandler, RuntimeMeter, SendOptions } from '../actors/contract.ts';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import type { Uuid } from '../domain/values.ts';
import type { TraceRequest } from '../edges/rest/responder.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { ActorRef, VolatileOutput } from '../machines/outputs.ts';
import { SERVICE_VERSION } from '../operations/platform/system.ts';

/** Number of recent commands whose later events join their trace. */
const REMEMBERED_COMMANDS = 20_000;
const CLOSE_MS = 2_000;

type Event = MachineEvent & { commandId?: Uuid };

/**
 * Traces commands as OpenTelemetry spans of one trace: the request, each batch that committed one of its events, the
 * write to the device, the device's acknowledgement. It wraps the runtime and the edges, which do not depend on it.
 */
export class Tracing implements SizeReporter {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #activeContext = new AsyncLocalStorage<Context>();
  readonly #commands = new LRUCache<Uuid, Context>({ max: REMEMBERED_COMMANDS });
  /** Trace contexts of events whose sender is traced. */
  readonly #contexts = new WeakMap<MachineEvent, Context>();
  #batch = { startedAt: 0, actors: 0, events: 0 };

  /** `endpoint` is the base URL of an OTLP receiver over HTTP, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it. */
  constructor(endpoint: string) {
    const exporter = new OTLPTraceExporter({ url: `${endpoint.replace(/\/+$/, '')}/v1/traces` });
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({ 'service.name': 'twinkeep', 'service.version': SERVICE_VERSION }),
      spanProcessors: [new BatchSpanProcessor({ exporter })],
    });
    this.#tracer = this.#provider.getTracer('twinkeep', SERVICE_VERSION);
  }

  readonly traceRequest: TraceRequest = ({ route, method, headers, requestId, response }, run) => {
    const sentParent = typeof headers.traceparent === 'string' ? parseTraceParent(headers.traceparent) : null;
    const parent =
      sentParent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...sentParent, isRemote: true });
    // The route, never the path or the query, which may contain a credential.
    const attributes: Attributes = { 'http.request.method': method, 'twinkeep.request_id': requestId };
    if (route !== null) attributes['http.route'] = route;
    const span = this.#tracer.startSpan(
      route === null ? method : `${method} ${route}`,
      { kind: SpanKind.SERVER, attributes },
      parent,
    );
    response.once('close', () => {
      span.setAttribute('http.response.status_code', response.statusCode);
      if (response.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    });
    this.#activeContext.run(trace.setSpan(parent, span), run);
  };

  /** Returns the actors with tracing of all events that are sent to them. */
  traceActors(actors: Actors): Actors {
    actors.subscribeTransitions((committed, event) => this.#recordCommit(committed, event));
    return new Proxy(actors, { get: (target, name) => this.#tracedMember(target, name) });
  }

  /** Returns the meter with recording of each batch's start time. */
  traceMeter(meter: RuntimeMeter): RuntimeMeter {
    return {
      ...meter,
      batchCommitted: (actors, events, milliseconds) => {
        this.#batch = { startedAt: Date.now() - milliseconds, actors, events };
        meter.batchCommitted(actors, events, milliseconds);
      },
    };
  }

  sizes(): CollectionSizes {
    return { traced_commands: this.#commands.size };
  }

  /** Exports the remaining spans. */
  async close(): Promise<void> {
    // An unavailable collector must not block the shutdown.
    await Promise.race([this.#provider.shutdown().catch(() => {}), after(CLOSE_MS, undefined, { ref: false })]);
  }

  #tracedMember(target: Actors, name: string | symbol): unknown {
    switch (name) {
      case 'send':
      case 'create':
        return (ref: ActorRef, event: MachineEvent, options?: SendOptions) =>
          this.#traceSend(ref, event, () => target[name](ref, event, options));
      case 'post':
        return (ref: ActorRef, event: MachineEvent, replyTo: ReplyHandler) =>
          target.post(ref, event, this.#traceReply(ref, event, replyTo));
      case 'subscribe':
        return ((type, handler) =>
          target.subscribe(type, (output) => {
            const volatileOutput: VolatileOutput = output;
            if (volatileOutput.type === 'command.write') this.#traceWrite(volatileOutput, () => handler(output));
            else handler(output);
          })) satisfies Actors['subscribe'];
      default: {
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === 'function' ? member.bind(target) : member;
      }
    }
  }

  #traceSend(ref: ActorRef, event: Event, send: () => Promise<Reply>): Promise<Reply> {
    const span = this.#startSpan(ref, event);
    const replied = send();
    if (span !== null) {
      replied.then(
        (reply) => endSpan(span, event, reply),
        (fault: unknown) => fail(span, fault),
      );
    }
    return replied;
  }

  /** Wraps the reply handler of `event` so that it ends the span. */
  #traceReply(ref: ActorRef, event: Event, replyTo: ReplyHandler): ReplyHandler {
    const span = this.#startSpan(ref, event);
    if (span === null) return replyTo;
    return {
      resolve(reply) {
        endSpan(span, event, reply);
        replyTo.resolve(reply);
      },
      reject(reason) {
        fail(span, reason);
        replyTo.reject(reason);
      },
    };
  }

  /** Starts the span of `event`; null outside any trace. */
  #startSpan(ref: ActorRef, event: Event): Span | null {
    const acknowledges = acknowledgedCommand(event);
    const parent = acknowledges === undefined ? this.#activeContext.getStore() : this.#commands.get(acknowledges);
    // Telemetry outside any trace: thousands of events per second without a parent.
    if (parent === undefined) return null;
    const span = this.#tracer.startSpan(
      acknowledges === undefined ? `send ${ref.kind} ${event.type}` : 'mqtt receive cmd_ack',
      {
        kind: acknowledges === undefined ? SpanKind.INTERNAL : SpanKind.CONSUMER,
        attributes: { ...aboutActor(ref), 'twinkeep.event': event.type },
      },
      parent,
    );
    this.#contexts.set(event, trace.setSpan(parent, span));
    if (ref.kind === 'command' && !this.#commands.has(ref.id)) this.#commands.set(ref.id, parent);
    return span;
  }

  #recordCommit({ ref, version }: Committed, event: Event): void {
    const parent = this.#contexts.get(event) ?? (ref.kind === 'command' ? this.#commands.get(ref.id) : undefined);
    if (parent === undefined) return;
    const attributes = {
      ...aboutActor(ref),
      'twinkeep.event': event.type,
      'twinkeep.actor.version': version,
      'twinkeep.turn.actors': this.#batch.actors,
      'twinkeep.turn.events': this.#batch.events,
    };
    this.#tracer.startSpan('turn', { startTime: this.#batch.startedAt, attributes }, parent).end();
  }

  #traceWrite({ deviceId, commandId }: { deviceId: Uuid; commandId: Uuid }, write: () => void): void {
    const parent = this.#commands.get(commandId);
    if (parent === undefined) {
      write();
      return;
    }
    const attributes = { 'twinkeep.device.id': deviceId, 'twinkeep.command.id': commandId };
    const span = this.#tracer.startSpan('mqtt write cmd', { kind: SpanKind.PRODUCER, attributes }, parent);
    try {
      write();
    } finally {
      span.end();
    }
  }
}

const aboutActor = ({ kind, id }: ActorRef): Attributes => ({ 'twinkeep.actor.kind': kind, 'twinkeep.actor.id': id });

/** The command that a device acknowledges. */
const acknowledgedCommand = ({ type, commandId }: Event): Uuid | undefined =>
  type === 'ack.reported' ? commandId : undefined;

/** Ends the span; for an acknowledgement after its command has committed it. */
function endSpan(span: Span, event: Event, { messagesDelivered }: Reply): void {
  if (acknowledgedCommand(event) === undefined) span.end();
  else
    messagesDelivered.then(
      () => span.end(),
      (fault: unknown) => fail(span, fault),
    );
}

function fail(span: Span, fault: unknown): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message: fault instanceof Error ? fault.name : 'fault' });
  span.end();
}

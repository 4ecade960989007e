import { create, fromBinary, type MessageInitShape, toBinary, toJson } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import {
  CognitionProposalSchema,
  type RuntimeEvent,
  RuntimeEventSchema,
} from '../../proto/gen/cognition/v1/runtime_pb.js';
import { eventually } from './clock.ts';

export type Proposal = Exclude<
  MessageInitShape<typeof CognitionProposalSchema>['proposal'],
  { case: undefined } | undefined
>;
export type EventCase = NonNullable<RuntimeEvent['event']['case']>;
type ValueOf<C extends EventCase> = Extract<RuntimeEvent['event'], { case: C }>['value'];

/** A stream that the service opened, as seen by the sidecar. */
export interface SidecarStream {
  events: RuntimeEvent[];
  ended: boolean;
  /** Received events of this kind, in order. */
  eventsOf<C extends EventCase>(kind: C): ValueOf<C>[];
  send(proposal: { proposalId?: string; contextId: string; proposal?: Proposal | undefined }): void;
  /** Sends arbitrary bytes. */
  sendBytes(bytes: Uint8Array): void;
  /** Resolves when the written bytes have been sent; never if they cannot be. */
  drained(): Promise<void>;
  setReading(reading: boolean): void;
  end(): void;
  fail(code: number, details: string): void;
}

export interface TestSidecar {
  address: string;
  streams: SidecarStream[];
  /** The newest stream. */
  readonly stream: SidecarStream;
  /** Waits until `count` streams were opened in total, and returns the newest. */
  waitForStream(count?: number): Promise<SidecarStream>;
  /** Stops listening and breaks all streams. */
  kill(): void;
}

const PATH = '/cognition.v1.CognitionRuntime/Orchestrate';

/** A passive sidecar: the test sends its messages and inspects the received events. */
export async function startSidecar({
  port = 0,
  headers = true,
  reads = () => true,
  received: receivedMessages = () => {},
}: {
  port?: number;
  headers?: boolean;
  reads?(): boolean;
  /** Called with each event. */
  received?(event: RuntimeEvent['event'], stream: SidecarStream): void;
} = {}): Promise<TestSidecar> {
  const streams: SidecarStream[] = [];
  const server = new Server({ 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 });
  server.addService(
    {
      orchestrate: {
        path: PATH,
        requestStream: true,
        responseStream: true,
        requestSerialize: (event: RuntimeEvent) => Buffer.from(toBinary(RuntimeEventSchema, event)),
        requestDeserialize: (bytes: Buffer) => fromBinary(RuntimeEventSchema, bytes),
        responseSerialize: (bytes: Uint8Array) => Buffer.from(bytes),
        responseDeserialize: (bytes: Buffer) => bytes,
      },
    },
    {
      orchestrate(call: ServerDuplexStream<RuntimeEvent, Uint8Array>) {
        if (headers) call.sendMetadata(call.metadata.clone());
        const stream = streamOf(call, reads());
        call.on('data', ({ event }: RuntimeEvent) => receivedMessages(event, stream));
        streams.push(stream);
      },
    },
  );
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, at) =>
      error ? reject(error) : resolve(at),
    );
  });
  const newest = (): SidecarStream => {
    const last = streams.at(-1);
    if (last === undefined) throw new Error('no stream was opened');
    return last;
  };
  return {
    address: `127.0.0.1:${bound}`,
    streams,
    get stream() {
      return newest();
    },
    async waitForStream(count = 1) {
      await eventually(() => streams.length >= count);
      return newest();
    },
    kill: () => server.forceShutdown(),
  };
}

function streamOf(call: ServerDuplexStream<RuntimeEvent, Uint8Array>, reads: boolean): SidecarStream {
  const stream: SidecarStream = {
    events: [],
    ended: false,
    eventsOf: <C extends EventCase>(kind: C) =>
      stream.events.flatMap(({ event }) => (event.case === kind ? [event.value as ValueOf<C>] : [])),
    send: ({ proposal, ...rest }) =>
      stream.sendBytes(
        toBinary(CognitionProposalSchema, create(CognitionProposalSchema, { ...rest, ...(proposal && { proposal }) })),
      ),
    sendBytes: (bytes) => void (stream.ended || call.write(bytes)),
    drained: () =>
      new Promise((resolve) =>
        call.write(toBinary(CognitionProposalSchema, create(CognitionProposalSchema)), () => resolve()),
      ),
    setReading: (reading) => void (reading ? call.resume() : call.pause()),
    end: () => void call.end(),
    fail: (code, details) => void call.emit('error', { code, details }),
  };
  call.on('data', (event: RuntimeEvent) => stream.events.push(event));
  if (!reads) call.pause();
  for (const event of ['end', 'cancelled', 'error', 'close']) call.on(event, () => (stream.ended = true));
  call.on('end', () => call.end());
  return stream;
}

/** An event as JSON, for assertion messages. */
export const shown = (event: RuntimeEvent): unknown => toJson(RuntimeEventSchema, event);

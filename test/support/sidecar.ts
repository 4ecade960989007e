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

/** One stream that the service opened, as the sidecar sees it. */
export interface SidecarStream {
  events: RuntimeEvent[];
  ended: boolean;
  /** What was told of this kind, in order. */
  eventsOf<C extends EventCase>(kind: C): ValueOf<C>[];
  send(proposal: { proposalId?: string; contextId: string; proposal?: Proposal | undefined }): void;
  /** Whatever bytes these are. */
  sendBytes(bytes: Uint8Array): void;
  /** Resolves when the bytes went where the service could read them, or never. */
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
  /** Waits for that many streams, counted from the first, and answers the newest. */
  waitForStream(count?: number): Promise<SidecarStream>;
  /** Nothing listens there any more; every stream breaks off. */
  kill(): void;
}

const PATH = '/cognition.v1.CognitionRuntime/Orchestrate';

/** A sidecar that does nothing by itself: a test says what it says, and looks at what it was told. */
export async function startSidecar({
  port = 0,
  headers = true,
  reads = () => true,
  heard = () => {},
}: {
  port?: number;
  headers?: boolean;
  reads?(): boolean;
  /** Called with each event. */
  heard?(event: RuntimeEvent['event'], stream: SidecarStream): void;
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
        call.on('data', ({ event }: RuntimeEvent) => heard(event, stream));
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
    if (last === undefined) throw new Error('nobody dialled');
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
    send: ({ proposal, ...about }) =>
      stream.sendBytes(
        toBinary(CognitionProposalSchema, create(CognitionProposalSchema, { ...about, ...(proposal && { proposal }) })),
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
  for (const sign of ['end', 'cancelled', 'error', 'close']) call.on(sign, () => (stream.ended = true));
  call.on('end', () => call.end());
  return stream;
}

/** An event as JSON, for a failing test's reader. */
export const shown = (event: RuntimeEvent): unknown => toJson(RuntimeEventSchema, event);

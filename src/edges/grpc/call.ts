import type { Socket } from 'node:net';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type ChannelCredentials,
  Client,
  type ClientOptions,
  connectivityState,
  credentials,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import {
  type CognitionProposal,
  CognitionProposalSchema,
  CognitionRuntime,
  type RuntimeEvent,
  RuntimeEventSchema,
} from '#proto/cognition/v1/runtime_pb.js';
import type { Lease } from '../../domain/lease.ts';
import type { SidecarLimits } from './sidecar-limits.ts';

// All that touches the gRPC library: one attempt to stand in a stream with a sidecar.

const { orchestrate } = CognitionRuntime.method;
const PATH = `/${CognitionRuntime.typeName}/${orchestrate.name}`;
const encode = (event: RuntimeEvent): Buffer => {
  const bytes = toBinary(RuntimeEventSchema, event);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
};
interface DecodedProposal {
  proposal: CognitionProposal;
  bytes: number;
}
const decode = (bytes: Buffer): DecodedProposal => ({
  proposal: fromBinary(CognitionProposalSchema, bytes),
  bytes: bytes.length,
});

export interface Call {
  /** True once the next one may be written, false when the stream is over. One at a time. */
  write(event: RuntimeEvent): Promise<boolean>;
  /** Nothing more is read from the socket than a few messages. */
  pause(): void;
  resume(): void;
  cancel(why: string): void;
}

export interface CallListener {
  /** The connection stands, and what is written now will arrive if the sidecar takes the stream. */
  onReady(call: Call): void;
  /** The sidecar took the stream. */
  onAccepted(): void;
  /** `bytes`: how much of the wire it took. */
  onProposal(proposal: CognitionProposal, bytes: number): void;
  /** Once, whatever became of it. `why` is short, and the sidecar may have written it. */
  onClose(why: string): void;
}

const channelOptions = ({ maxProposalBytes, keepaliveMs, keepaliveTimeoutMs }: SidecarLimits): ClientOptions => ({
  'grpc.max_receive_message_length': maxProposalBytes,
  'grpc.max_send_message_length': -1,
  'grpc.keepalive_time_ms': keepaliveMs,
  'grpc.keepalive_timeout_ms': keepaliveTimeoutMs,
  // Attempts are the dialler's to make: each has a connection of its own, and nothing between us and the sidecar.
  'grpc.enable_retries': 0,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_channelz': 0,
});

/**
 * Dials `address` (`host:port`) and opens the stream. Internal, without TLS: the specification has it so. Once `lease` is over
 * nothing is written and nothing that was received is passed on: the connection is cut.
 */
export function openCall(
  address: string,
  limits: SidecarLimits,
  lease: Pick<Lease, 'valid'>,
  listener: CallListener,
): Pick<Call, 'cancel'> {
  const sockets = new Set<Socket>();
  const client = new Client(
    address,
    insecureCredentials((socket) => sockets.add(socket)),
    channelOptions(limits),
  );
  let over = false;
  let stream: ReturnType<typeof open> | null = null;
  const timers = new Set<NodeJS.Timeout>();
  const after = (ms: number, act: () => void) => timers.add(setTimeout(act, ms));
  const waiting = new Set<(written: boolean) => void>();

  function end(why: string): void {
    if (over) return;
    over = true;
    for (const timer of timers) clearTimeout(timer);
    for (const settle of waiting) settle(false);
    const cut = () => sockets.forEach((socket) => void socket.destroy());
    // Only the active process closes the stream in order; the rest of an event that is being sent is lost.
    if (!lease.valid()) cut();
    stream?.cancel();
    client.close();
    if (stream === null) cut();
    else setTimeout(cut, CANCEL_FLUSH_MS).unref();
    listener.onClose(sanitizeForLog(why));
  }

  const isOver = (): boolean => {
    if (!over && !lease.valid()) end('the lease of this process is over');
    return over;
  };
  const open = () => client.makeBidiStreamRequest<RuntimeEvent, DecodedProposal>(PATH, encode, decode);

  function converse(): void {
    const opened = open();
    stream = opened;
    let isTaken = false;
    const taken = () => {
      if (isTaken || isOver()) return;
      isTaken = true;
      listener.onAccepted();
    };
    opened.on('metadata', taken);
    opened.on('data', ({ proposal, bytes }: DecodedProposal) => {
      if (isOver()) return;
      taken();
      listener.onProposal(proposal, bytes);
    });
    opened.on('error', ({ code, details }: ServiceError) => end(`${status[code] ?? code}: ${details}`));
    opened.on('end', () => end('the sidecar ended the stream'));
    after(limits.acceptanceGraceMs, taken);
    listener.onReady({
      write: (event) =>
        new Promise((resolve) => {
          if (isOver()) return resolve(false);
          const settle = (written: boolean) => {
            waiting.delete(settle);
            clearTimeout(stalled);
            resolve(written);
          };
          const stalled = setTimeout(() => end('the sidecar does not read'), limits.stallTimeoutMs);
          waiting.add(settle);
          opened.write(event, () => settle(!over));
        }),
      pause: () => opened.pause(),
      resume: () => opened.resume(),
      cancel: end,
    });
  }

  after(limits.connectTimeoutMs, () => {
    if (stream === null) end('the connection does not stand');
  });
  awaitConnection(client.getChannel(), (yes) => {
    if (isOver()) return;
    if (yes) converse();
    else end('the connection was refused');
  });
  return { cancel: end };
}

/** What was cancelled is told to the sidecar within this time, or never. */
const CANCEL_FLUSH_MS = 1_000;

/** Without TLS, and with a hold on the sockets: the library waits for ever for a peer that answers nothing, even when it is closed. */
function insecureCredentials(hold: (socket: Socket) => void): ChannelCredentials {
  const plain = credentials.createInsecure();
  const connector = plain._createSecureConnector.bind(plain);
  plain._createSecureConnector = (...given) => {
    const made = connector(...given);
    return {
      ...made,
      connect(socket) {
        hold(socket);
        return made.connect(socket);
      },
    };
  };
  return plain;
}

/** Says once whether the connection stands or failed; a channel that is closed says nothing. */
function awaitConnection(channel: ReturnType<Client['getChannel']>, say: (yes: boolean) => void): void {
  const look = () => {
    const state = channel.getConnectivityState(true);
    if (state === connectivityState.READY) return say(true);
    if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) return say(false);
    channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, (error) => {
      if (error === undefined || error === null) look();
    });
  };
  look();
}

const CONTROL_CHARACTERS = /\p{Cc}+/gu;
/** What somebody else wrote, for a line of the log. */
const sanitizeForLog = (text: string): string => text.replace(CONTROL_CHARACTERS, ' ').slice(0, 200);

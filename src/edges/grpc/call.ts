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

// The only module that uses the gRPC library: one connection attempt and one stream to a sidecar.

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
  /**
   * Resolves to true when the event is written and the next one may follow, to false when the stream is closed. One
   * call at a time.
   */
  write(event: RuntimeEvent): Promise<boolean>;
  /** Stops reading from the socket; a few buffered messages may still arrive. */
  pause(): void;
  resume(): void;
  cancel(why: string): void;
}

export interface CallListener {
  /** Connected. Events written now arrive if the sidecar accepts the stream. */
  onReady(call: Call): void;
  /** The sidecar accepted the stream. */
  onAccepted(): void;
  /** `bytes`: encoded size. */
  onProposal(proposal: CognitionProposal, bytes: number): void;
  /** Called exactly once, also when the attempt failed. `why` is short and may contain text of the sidecar. */
  onClose(why: string): void;
}

const channelOptions = ({ maxProposalBytes, keepaliveMs, keepaliveTimeoutMs }: SidecarLimits): ClientOptions => ({
  'grpc.max_receive_message_length': maxProposalBytes,
  'grpc.max_send_message_length': -1,
  'grpc.keepalive_time_ms': keepaliveMs,
  'grpc.keepalive_timeout_ms': keepaliveTimeoutMs,
  // The dialler does the retries: each attempt has its own connection, without a proxy or a shared subchannel.
  'grpc.enable_retries': 0,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_channelz': 0,
});

/**
 * Dials `address` (`host:port`) and opens the stream, without TLS: the sidecar is internal by the specification. After
 * the `lease` has ended nothing is written, received proposals are discarded, and the connection is destroyed.
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
  let closed = false;
  let stream: ReturnType<typeof open> | null = null;
  const timers = new Set<NodeJS.Timeout>();
  const after = (ms: number, act: () => void) => timers.add(setTimeout(act, ms));
  const pendingWrites = new Set<(written: boolean) => void>();

  function end(why: string): void {
    if (closed) return;
    closed = true;
    for (const timer of timers) clearTimeout(timer);
    for (const settle of pendingWrites) settle(false);
    const destroySockets = () => sockets.forEach((socket) => void socket.destroy());
    // Only the active process may close the stream gracefully. Without the lease, a partly written event is dropped.
    if (!lease.valid()) destroySockets();
    stream?.cancel();
    client.close();
    if (stream === null) destroySockets();
    else setTimeout(destroySockets, CANCEL_FLUSH_MS).unref();
    listener.onClose(sanitizeForLog(why));
  }

  const isClosed = (): boolean => {
    if (!closed && !lease.valid()) end('the lease of this process is over');
    return closed;
  };
  const open = () => client.makeBidiStreamRequest<RuntimeEvent, DecodedProposal>(PATH, encode, decode);

  function startStream(): void {
    const opened = open();
    stream = opened;
    let isAccepted = false;
    const accept = () => {
      if (isAccepted || isClosed()) return;
      isAccepted = true;
      listener.onAccepted();
    };
    opened.on('metadata', accept);
    opened.on('data', ({ proposal, bytes }: DecodedProposal) => {
      if (isClosed()) return;
      accept();
      listener.onProposal(proposal, bytes);
    });
    opened.on('error', ({ code, details }: ServiceError) => end(`${status[code] ?? code}: ${details}`));
    opened.on('end', () => end('the sidecar ended the stream'));
    after(limits.acceptanceGraceMs, accept);
    listener.onReady({
      write: (event) =>
        new Promise((resolve) => {
          if (isClosed()) return resolve(false);
          const settle = (written: boolean) => {
            pendingWrites.delete(settle);
            clearTimeout(stalled);
            resolve(written);
          };
          const stalled = setTimeout(() => end('write timed out: the sidecar is not reading'), limits.stallTimeoutMs);
          pendingWrites.add(settle);
          opened.write(event, () => settle(!closed));
        }),
      pause: () => opened.pause(),
      resume: () => opened.resume(),
      cancel: end,
    });
  }

  after(limits.connectTimeoutMs, () => {
    if (stream === null) end('connection timed out');
  });
  awaitConnection(client.getChannel(), (connected) => {
    if (isClosed()) return;
    if (connected) startStream();
    else end('connection failed');
  });
  return { cancel: end };
}

/** Time for the cancellation frame to be sent before the sockets are destroyed. */
const CANCEL_FLUSH_MS = 1_000;

/**
 * Credentials without TLS that expose the sockets: even after `close()` the library waits without limit for a peer that
 * never answers, so the sockets have to be destroyed here.
 */
function insecureCredentials(onSocket: (socket: Socket) => void): ChannelCredentials {
  const plain = credentials.createInsecure();
  const connector = plain._createSecureConnector.bind(plain);
  plain._createSecureConnector = (...args) => {
    const created = connector(...args);
    return {
      ...created,
      connect(socket) {
        onSocket(socket);
        return created.connect(socket);
      },
    };
  };
  return plain;
}

/** Calls back once: connected or failed. A channel that is closed in between never calls back. */
function awaitConnection(channel: ReturnType<Client['getChannel']>, callback: (connected: boolean) => void): void {
  const check = () => {
    const state = channel.getConnectivityState(true);
    if (state === connectivityState.READY) return callback(true);
    if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) return callback(false);
    channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, (error) => {
      if (error === undefined || error === null) check();
    });
  };
  check();
}

const CONTROL_CHARACTERS = /\p{Cc}+/gu;
/** Makes text from the peer safe for a log line. */
const sanitizeForLog = (text: string): string => text.replace(CONTROL_CHARACTERS, ' ').slice(0, 200);

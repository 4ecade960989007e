import { Metadata, type ServerDuplexStream, status } from '@grpc/grpc-js';
import type { CognitionProposal, RuntimeEvent } from '#proto/cognition/v1/runtime_pb.js';
import type { Log } from './log.ts';
import type { Planner } from './planner-types.ts';
import { startSession } from './session.ts';

export type Stream = ServerDuplexStream<RuntimeEvent, CognitionProposal>;

/** Words that the service does not read. */
const MAX_UNREAD_PROPOSALS = 20_000;

/** Leads the conversation of a stream from its first event to its end, which is told once. */
export function handleStream(
  stream: Stream,
  { planner, log, over }: { planner: Planner; log: Log; over(why: string): void },
): void {
  const unread: CognitionProposal[] = [];
  let writable = true;
  let ended = false;
  const flush = () => {
    while (writable && unread.length > 0) writable = stream.write(unread.shift() as CognitionProposal);
  };
  const end = (why: string) => {
    if (ended) return;
    ended = true;
    session.close();
    over(why);
  };
  const startOver = (why: string) => {
    end(why);
    abortStream(stream, why);
  };
  const session = startSession({
    planner,
    log,
    resetStream: startOver,
    send(message) {
      if (ended) return;
      unread.push(message);
      flush();
      if (unread.length > MAX_UNREAD_PROPOSALS) startOver('the service does not read');
    },
  });
  // Says that the stream is taken, before there is anything to propose.
  stream.sendMetadata(new Metadata());
  stream.on('drain', () => {
    writable = true;
    flush();
  });
  stream.on('data', (event: RuntimeEvent) => {
    if (!ended) session.handleEvent(event);
  });
  stream.on('end', () => {
    end('the service ended it');
    stream.end();
  });
  stream.on('error', () => end('the connection broke'));
  stream.on('close', () => end('the connection closed'));
  stream.on('cancelled', () => end('the service cancelled it'));
}

// To destroy it would end it without a word.
export const abortStream = (stream: Stream, why: string): void =>
  void stream.emit('error', Object.assign(new Error(why), { code: status.RESOURCE_EXHAUSTED, details: why }));

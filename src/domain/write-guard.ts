type Done = (error?: Error | null) => void;

/** The internal write methods of a Node stream (`Writable`, `Duplex`, `Socket`). */
interface GuardedStream {
  _write(chunk: unknown, encoding: BufferEncoding, done: Done): void;
  _writev?: ((chunks: { chunk: unknown; encoding: BufferEncoding }[], done: Done) => void) | null;
  destroy(): unknown;
}

/**
 * Destroys the socket at the first write for which `mayWrite` returns false, so that no further byte reaches the
 * operating system. The check is below all of the process's buffers, so it also holds back data buffered earlier. It
 * does not cover HTTP/2 sessions, whose bytes Node writes below the stream.
 */
export function guardWrites(socket: GuardedStream, mayWrite: () => boolean): void {
  const write = socket._write;
  const writev = socket._writev;
  socket._write = (chunk, encoding, done) => {
    if (mayWrite()) write.call(socket, chunk, encoding, done);
    else socket.destroy();
  };
  if (writev !== undefined && writev !== null) {
    socket._writev = (chunks, done) => {
      if (mayWrite()) writev.call(socket, chunks, done);
      else socket.destroy();
    };
  }
}

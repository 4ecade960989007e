type Done = (error?: Error | null) => void;

/** The part of a Node stream (`Writable`, `Duplex`, `Socket`) that hands bytes on. */
interface GuardedStream {
  _write(chunk: unknown, encoding: BufferEncoding, done: Done): void;
  _writev?: ((chunks: { chunk: unknown; encoding: BufferEncoding }[], done: Done) => void) | null;
  destroy(): unknown;
}

/**
 * From the moment at which `mayWrite` answers false no further byte is handed to the operating system on this socket, and
 * the socket is cut. The check is behind all buffers of the process: what was written to the stream earlier is kept back too.
 * It does not see the bytes of an HTTP/2 session, which Node writes below the stream.
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

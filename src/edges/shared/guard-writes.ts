import type { Duplex } from 'node:stream';

/**
 * From the moment at which `mayWrite` answers false no further byte is handed to the operating system on this socket, and
 * the socket is cut. The check is behind all buffers of the process: what was written to the stream earlier is kept back too.
 */
export function guardWrites(socket: Duplex, mayWrite: () => boolean): void {
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
